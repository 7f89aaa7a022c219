"""All forms of `resources.gpu`."""

import pytest

from jobs import job_file
from jobs.errors import InvalidJob
from jobs.spec import GpuWish


def wishes(text: str) -> tuple[GpuWish, ...]:
    """What `resources.gpu: text` asks for."""
    return job_file.read(f"run: x\nresources:\n  gpu: {text}\n").spec.resources.gpu


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("24GB", GpuWish(vram_gb=24)),
        ("24GiB", GpuWish(vram_gb=24)),
        ("24GB:2", GpuWish(vram_gb=24, count=2)),
        ("RTX4090", GpuWish(model="RTX4090")),
        ("nvidia geforce rtx 4090", GpuWish(model="RTX4090")),
        ("A100", GpuWish(model="A100")),
        ("A100-80GB:8", GpuWish(model="A100-80GB", count=8)),
        ("A100:1", GpuWish(model="A100")),
        ("{vram: 24GB}", GpuWish(vram_gb=24)),
        ("{models: H100, count: 8, cuda: 12.4}", GpuWish(model="H100", count=8, cuda="12.4")),
        ("{min_compute_capability: 8.0}", GpuWish(min_compute_capability=8.0)),
    ],
)
def test_one_wish(text: str, wish: GpuWish) -> None:
    """A size, a model, a count, or all of it in a section."""
    assert wishes(text) == (wish,)


def test_any_of_in_order() -> None:
    """A list, or several models in a section, is any of them in this order."""
    assert wishes("[RTX4090, 48GB:2, A100]") == (
        GpuWish(model="RTX4090"), GpuWish(vram_gb=48, count=2), GpuWish(model="A100"),
    )  # fmt: skip
    assert wishes("{models: [A100, H100], vram: 80GB, count: 2}") == (
        GpuWish(model="A100", vram_gb=80, count=2), GpuWish(model="H100", vram_gb=80, count=2),
    )  # fmt: skip
    assert wishes("[RTX4090, {vram: 48GB, cuda: 12.4}]") == (
        GpuWish(model="RTX4090"), GpuWish(vram_gb=48, cuda="12.4"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "better"),
    [
        ("RTX4091", "did you mean RTX4090"),
        ("24", "write 24GB for memory, or a name like RTX4090"),
        ("24G", "write 24GB"),
        ("24GB+", "write 24GB, which means at least so much"),
        ("24GB..48GB", "write 24GB, which means at least so much"),
        ("A100:80GB", "write A100-80GB"),
        ("A100:80GB:2", "write A100-80GB:2"),
        ("A100:0", "from 1 to 64"),
        ("A100:x", "from 1 to 64"),
        ("A100:02", "write 2"),
        ("024GB", "is not a GPU's memory"),
        ("no", "is not known"),
        ("[]", "resources.gpu is empty"),
        ("{}", "resources.gpu is empty"),
        ("", "resources.gpu is empty"),
        ("[[A100]]", "write one list"),
        ("{A100:1, L4:1}", "write a list: [A100:1, L4:1]"),
        ("{vrma: 24GB}", "did you mean vram?"),
        ("{vram: 24}", "write 24GB"),
        ("{models: [A100, nothing]}", "the GPU 'nothing' is not known"),
        ("{cuda: 12}", "write one like 12.4"),
        ("{min_compute_capability: 8}", "write one like 8.0"),
    ],
)
def test_refused(text: str, better: str) -> None:
    """What has no meaning, or two, is refused with what would be right."""
    with pytest.raises(InvalidJob) as refused:
        wishes(text)
    assert better in str(refused.value)
    assert str(refused.value).startswith("job.yaml:3:")
