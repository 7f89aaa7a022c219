"""Whether a machine has what a job asks for: pure predicates that answer None or the reason why not.

What an offer does not tell (None) is not held against it, except where renting a machine
only to look would cost money: GPU model, GPU memory and compute capability must be known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jobs import gpus

if TYPE_CHECKING:
    from jobs.spec import GpuWish, Resources

# The one tolerance of stated memory sizes: 24564 MiB, 24 GB, 23.6 GiB and 24000 MB are all 24 GB.
NOMINAL_TOLERANCE: Final = gpus.TOLERANCE


def machine_refusal(
    resources: Resources, *, cpus: int | None = None, memory_gb: float | None = None, disk_gb: float | None = None
) -> str | None:
    """Why a machine with so much beside its GPUs does not do for `resources`, or None if it does."""
    for name, wanted, has in (
        ("CPUs", resources.cpus, cpus),
        ("GB of memory", resources.memory_gb, memory_gb),
        ("GB of disk", resources.disk_gb, disk_gb),
    ):
        if wanted is not None and has is not None and has < wanted:
            return f"has {has:g} {name}, {wanted:g} asked for"
    return None


def gpu_refusal(
    wish: GpuWish,
    *,
    gpu: str,
    count: int,
    vram_gb: float = 0,
    compute_capability: float | None = None,
    cuda: str | None = None,
) -> str | None:
    """Why `count` GPUs named `gpu` do not meet `wish`, or None if they do; the count must be the same.

    vram_gb: per GPU as stated (0: not told). compute_capability, cuda: None where not told.
    """
    if wish.model is not None and not gpus.matches(wish.model, gpu, vram_gb):
        size = f" of {vram_gb:g} GB" if vram_gb > 0 else ""
        return f"has {gpu or 'no GPU'}{size}, {wish.model} asked for"
    if wish.vram_gb is not None and not meets_vram(wish.vram_gb, gpu, vram_gb):
        size = f"{vram_gb:g} GB per GPU" if vram_gb > 0 else "GPU memory of unknown size"
        return f"has {size}, {wish.vram_gb:g} GB asked for"
    if count != wish.count:
        return f"has {count} x {gpu or 'GPU'}, {wish.count} asked for"
    if wish.min_compute_capability is not None:
        known = compute_capability if compute_capability is not None else _compute_capability(gpu, vram_gb)
        if known is None:
            return f"the compute capability of {gpu or 'its GPU'} is not known"
        if known < wish.min_compute_capability:
            return f"has compute capability {known:.1f}, {wish.min_compute_capability:.1f} asked for"
    if wish.cuda is not None and cuda and version(cuda) < version(wish.cuda):
        return f"its driver runs CUDA {cuda}, {wish.cuda} asked for"
    return None


def meets_vram(wish_gb: float, gpu: str, vram_gb: float) -> bool:
    """Whether each GPU has `wish_gb`, by the size that a GPU of so much stated memory is sold with."""
    if vram_gb <= 0:
        known = gpus.find(gpu)
        vram_gb = known.vram_gb if known else 0
    return vram_gb > 0 and gpus.nominal_gb(vram_gb, gpu) >= wish_gb


def version(text: str) -> tuple[int, ...]:
    """`12.4` as numbers that compare: 12.10 is later than 12.4."""
    return tuple(int(word) for word in text.split(".") if word.isdigit())


def _compute_capability(gpu: str, vram_gb: float) -> float | None:
    known = gpus.find(gpu, vram_gb) or gpus.find(gpu)
    return known.compute_capability if known else None
