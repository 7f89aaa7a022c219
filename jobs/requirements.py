"""Whether a machine has what a job asks for: pure predicates that answer None or the reason why not.

What an offer does not tell (None) is not held against it, except where renting a machine
only to look would cost money: GPU model, GPU memory and compute capability must be known.
The probe on the machine asks the same questions again, of every card.
"""

from dataclasses import dataclass

from jobs import gpus
from jobs.spec import GpuWish, Resources


@dataclass(frozen=True)
class Hardware:
    """What a machine has, as an offer or a probe states it. vram_gb: per GPU; memory and disk: GB; None: not told."""

    gpu: str = ""
    gpu_count: int = 0
    vram_gb: float = 0
    cpus: int | None = None
    memory_gb: float | None = None
    disk_gb: float | None = None
    cuda: str | None = None
    compute_capability: float | None = None


def refusal(resources: Resources, hardware: Hardware) -> str | None:
    """Why a machine does not do for these resources, or None if it does."""
    for name, wanted, has in (
        ("CPUs", resources.cpus, hardware.cpus),
        ("GB of memory", resources.memory_gb, hardware.memory_gb),
        ("GB of disk", resources.disk_gb, hardware.disk_gb),
    ):
        if wanted is not None and has is not None and has < wanted:
            return f"has {has:g} {name}, {wanted:g} asked for"
    if not resources.gpu or first_fit(resources, hardware) is not None:
        return None
    reasons = (gpu_refusal(wish, hardware) for wish in resources.gpu)
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))


def first_fit(resources: Resources, hardware: Hardware) -> int | None:
    """The place in `resources.gpu` of the first wish that the machine's GPUs meet, or None."""
    return next((at for at, wish in enumerate(resources.gpu) if gpu_refusal(wish, hardware) is None), None)


def gpu_refusal(wish: GpuWish, hardware: Hardware) -> str | None:
    """Why the GPUs of a machine are not what `wish` says, or None if they are. The count must be the same."""
    if wish.model is not None and not gpus.matches(wish.model, hardware.gpu, hardware.vram_gb):
        size = f" of {hardware.vram_gb:g} GB" if hardware.vram_gb > 0 else ""
        return f"has {hardware.gpu or 'no GPU'}{size}, {wish.model} asked for"
    if wish.vram_gb is not None and not meets_vram(wish.vram_gb, hardware):
        size = f"{hardware.vram_gb:g} GB per GPU" if hardware.vram_gb > 0 else "GPU memory of unknown size"
        return f"has {size}, {wish.vram_gb:g} GB asked for"
    if hardware.gpu_count != wish.count:
        return f"has {hardware.gpu_count} x {hardware.gpu or 'GPU'}, {wish.count} asked for"
    if wish.min_compute_capability is not None:
        capability = _compute_capability(hardware)
        if capability is None:
            return f"the compute capability of {hardware.gpu or 'its GPU'} is not known"
        if capability < wish.min_compute_capability:
            return f"has compute capability {capability:g}, {wish.min_compute_capability:g} asked for"
    if wish.cuda is not None and hardware.cuda and _version(hardware.cuda) < _version(wish.cuda):
        return f"its driver runs CUDA {hardware.cuda}, {wish.cuda} asked for"
    return None


def meets_vram(wish_gb: float, hardware: Hardware) -> bool:
    """Whether each GPU has `wish_gb`, by the size it is sold with (the one tolerance: gpus.TOLERANCE)."""
    stated = hardware.vram_gb
    if stated <= 0:
        known = gpus.find(hardware.gpu)
        stated = known.vram_gb if known else 0
    return gpus.nominal_gb(stated) >= wish_gb if stated > 0 else False


def _compute_capability(hardware: Hardware) -> float | None:
    if hardware.compute_capability is not None:
        return hardware.compute_capability
    known = gpus.find(hardware.gpu, hardware.vram_gb) or gpus.find(hardware.gpu)
    return known.compute_capability if known else None


def _version(text: str) -> tuple[int, ...]:
    parts = (part for part in text.split(".") if part.isdigit())
    return tuple(int(part) for part in parts)
