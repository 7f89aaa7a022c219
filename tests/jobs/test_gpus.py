"""GPU names, groups and sizes."""

import pytest

from jobs import gpus
from jobs.gpu_table import TABLE


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("RTX4090", "RTX4090"),
        ("rtx 4090", "RTX4090"),
        ("RTX_4090", "RTX4090"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("rtx4090-24gb", "RTX4090"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM-80GB"),
        ("A100_SXM4", "A100-SXM"),
        ("a100 80gb", "A100-80GB"),
        ("A100", "A100"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("Tesla T4", "T4"),
        ("Tesla V100-SXM2-16GB", "V100-SXM-16GB"),
        ("NVIDIA RTX A6000", "A6000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX6000Ada"),
        ("RTX 3060", "RTX3060"),
        ("AMD Instinct MI300X OAM", "MI300X"),
        ("H100 SXM5 80GB", "H100-SXM"),
        ("RTX PRO Server 6000", "RTXPRO6000-SERVER"),
        ("RTX 9999", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("", None),
    ],
)
def test_canonical(written: str, name: str | None) -> None:
    """Case, spaces, `_`, `-` and the maker's words make no difference; a laptop's GPU is another one."""
    assert gpus.canonical(written) == name


def test_every_name_has_one_meaning() -> None:
    """Each name, group and alias of the table has a canonical name; names are unique."""
    names = [gpu.name for gpu in TABLE]
    assert len(set(names)) == len(names)
    for gpu in TABLE:
        assert gpus.canonical(gpu.name) == gpu.name
        for spelling in (*gpu.groups, *gpu.aliases):
            assert gpus.canonical(spelling) is not None, spelling
            assert gpu in gpus.models(spelling)


def test_find() -> None:
    """A name of several models is the smallest of them, or the one of the stated size."""
    small, large = gpus.find("A100"), gpus.find("A100", 79.6)
    assert small is not None and small.name == "A100-PCIE-40GB"
    assert large is not None and large.name == "A100-PCIE-80GB"
    assert gpus.find("no such card") is None


def test_nearest() -> None:
    """A misspelt name gets names that look like it, the likeliest first."""
    assert gpus.nearest("RTX4091")[0] == "RTX4090"
    assert gpus.nearest("A10O")[0] in ("A100", "A10")
    assert "RTX4090" in gpus.nearest("4090")
    assert gpus.nearest("zzzzzz") == []


@pytest.mark.parametrize(
    ("wish", "offer", "vram_gb", "same"),
    [
        ("A100", "A100_SXM4", 79.6, True),
        ("A100", "A100 PCIE", 40, True),
        ("A100-80GB", "A100", 80, True),
        ("A100-80GB", "A100", 40, False),
        ("A100-80GB", "NVIDIA A100-SXM4-80GB", 0, True),
        ("A100-SXM", "A100", 80, False),
        ("H100-SXM", "H100", 80, False),
        ("H100", "H100 NVL", 93.6, True),
        ("RTX4090", "RTX_4090", 23.99, True),
        ("RTX4090", "RTX 4080", 16, False),
        ("L4", "L4", 22, True),
        ("L40S", "L40S", 44, True),
        ("B300", "NVIDIA B300", 262, True),
        ("A100", "A100", 20, False),
        ("RTX3060", "RTX 3060", 12, True),
        ("RTX3060-12GB", "RTX 3060", 8, False),
        ("RTX4090", "unheard of", 24, False),
    ],
)
def test_matches(wish: str, offer: str, vram_gb: float, same: bool) -> None:
    """An offer is taken for a wish only if every model that it may be is covered; a slice of a GPU is not."""
    assert gpus.matches(wish, offer, vram_gb) is same


@pytest.mark.parametrize("gpu", TABLE, ids=lambda gpu: gpu.name)
def test_sizes_of_the_table_are_nominal(gpu: gpus.Gpu) -> None:
    """Each size is itself, also when a driver shows a little less."""
    assert gpus.nominal_gb(gpu.vram_gb) == gpu.vram_gb
    assert gpus.nominal_gb(gpu.vram_gb * 0.99) == gpu.vram_gb


def test_the_model_decides_between_two_sizes() -> None:
    """22 GB of an L4 are its 24 without the error correction; of an unknown card they are 20."""
    assert (gpus.nominal_gb(22, "L4"), gpus.nominal_gb(22)) == (24, 20)


def test_an_odd_size_stays() -> None:
    """A size that no GPU is sold with stays what was stated."""
    assert gpus.nominal_gb(3.5) == 3.5
    assert gpus.nominal_gb(1000) == 1000
