"""Whether a machine has what a job asks for."""

import pytest

from jobs.requirements import gpu_refusal, machine_refusal, meets_vram
from jobs.spec import GpuWish, Resources


@pytest.mark.parametrize("stated", [24, 24564 / 1024, 23.6, 24000 / 1000, 24000 / 1024, 24 * 1.073741824, 22.5])
def test_the_same_card_in_other_words(stated: float) -> None:
    """24564 MiB, 24 GB, 23.6 GiB and 24000 MB all meet 24, and none of them meets 32."""
    assert meets_vram(24, "", stated)
    assert not meets_vram(32, "", stated)


@pytest.mark.parametrize("stated", [12, 12.9, 16, 17.2, 20, 21.5, 12288 / 1024, 0])
def test_a_small_card_never_passes(stated: float) -> None:
    """A card of 12, 16 or 20 GB never meets 24, in whatever words; nor does one of unknown size."""
    assert not meets_vram(24, "", stated)


def test_a_known_card_needs_no_stated_size() -> None:
    """Where an offer does not tell the memory, the model does."""
    assert meets_vram(24, "RTX 4090", 0)
    assert not meets_vram(24, "L4", 11.2)


def test_count_is_exact() -> None:
    """The number of GPUs must be the number asked for."""
    wish = GpuWish(vram_gb=24, count=2)
    assert gpu_refusal(wish, gpu="RTX4090", count=2, vram_gb=24) is None
    assert gpu_refusal(wish, gpu="RTX4090", count=1, vram_gb=24) == "has 1 x RTX4090, 2 asked for"
    assert gpu_refusal(wish, gpu="RTX4090", count=4, vram_gb=24) == "has 4 x RTX4090, 2 asked for"


def test_model() -> None:
    """A wrong model is named together with what was asked for."""
    assert gpu_refusal(GpuWish(model="A100-80GB"), gpu="A100", count=1, vram_gb=40) == (
        "has A100 of 40 GB, A100-80GB asked for"
    )


def test_compute_capability() -> None:
    """It comes from the offer, else from the table; unknown is refused."""
    wish = GpuWish(min_compute_capability=8.0)
    assert gpu_refusal(wish, gpu="RTX3090", count=1) is None
    assert gpu_refusal(wish, gpu="T4", count=1) == "has compute capability 7.5, 8.0 asked for"
    assert gpu_refusal(wish, gpu="new card", count=1) == "the compute capability of new card is not known"
    assert gpu_refusal(wish, gpu="new card", count=1, compute_capability=13.0) is None


def test_cuda_versions_compare_as_numbers() -> None:
    """12.10 is later than 12.4, 11.8 is not, and what is not told is asked on the machine."""
    wish = GpuWish(cuda="12.4")
    assert gpu_refusal(wish, gpu="T4", count=1, cuda="12.10") is None
    assert gpu_refusal(wish, gpu="T4", count=1, cuda=None) is None
    assert gpu_refusal(wish, gpu="T4", count=1, cuda="11.8") == "its driver runs CUDA 11.8, 12.4 asked for"


def test_machine() -> None:
    """CPUs, memory and disk must be enough where they are told."""
    wanted = Resources(cpus=8, memory_gb=32, disk_gb=100)
    assert machine_refusal(wanted, cpus=8, memory_gb=32, disk_gb=100) is None
    assert machine_refusal(wanted) is None
    assert machine_refusal(wanted, cpus=4) == "has 4 CPUs, 8 asked for"
    assert machine_refusal(wanted, disk_gb=10) == "has 10 GB of disk, 100 asked for"
