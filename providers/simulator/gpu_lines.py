"""What nvidia-smi prints on a simulated machine for `name, memory.total, compute_cap, driver_version`."""

from typing import Final

from jobs.gpus import find

DRIVER: Final = "550.54.15"
CUDA: Final = "12.4"


def gpu_lines(gpu: str, vram_gb: float, count: int) -> tuple[str, ...]:
    """One line a card: the offer's name, its memory in MiB (1 GB of an offer is 1024 MiB of a card)."""
    known = find(gpu, vram_gb) or find(gpu)
    capability = (known.compute_capability if known else None) or 8.6
    return tuple(f"{gpu}, {round(vram_gb * 1024)}, {capability}, {DRIVER}" for _ in range(count))
