"""What nvidia-smi prints on a simulated machine for `name, memory.total, compute_cap, driver_version`."""

from typing import Final

DRIVER: Final = "550.54.15"
_CAPABILITIES: Final = (
    *(("B200", "10.0"), ("B300", "10.3"), ("GH200", "9.0"), ("H100", "9.0"), ("H200", "9.0"), ("5090", "12.0")),
    *(("RTX PRO 6000", "12.0"), ("L40", "8.9"), ("L4", "8.9"), ("ADA", "8.9"), ("40", "8.9"), ("A100", "8.0")),
    *(("A10", "8.6"), ("A16", "8.6"), ("A40", "8.6"), ("V100", "7.0"), ("T4", "7.5"), ("P100", "6.0")),
)


def gpu_lines(gpu: str, vram_gb: float, count: int) -> tuple[str, ...]:
    """One line a card: the offer's name, its memory in MiB (1 GB of an offer is 1024 MiB of a card)."""
    name = gpu.upper().replace("-", " ").replace("_", " ")
    capability = next((value for part, value in _CAPABILITIES if part in name), "8.6")
    return tuple(f"{gpu}, {round(vram_gb * 1024)}, {capability}, {DRIVER}" for _ in range(count))
