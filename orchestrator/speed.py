"""How fast one GPU is against another, for `estimate: {hours, on}`."""

from jobs.gpus import find


def relative_speed(gpu: str, reference: str) -> float:
    """Speed of `gpu` in units of `reference`, by dense 16-bit tensor throughput; 1.0 where one is not known."""
    mine, theirs = find(gpu), find(reference)
    if mine is None or theirs is None or not mine.tflops_16bit or not theirs.tflops_16bit:
        return 1.0
    return mine.tflops_16bit / theirs.tflops_16bit
