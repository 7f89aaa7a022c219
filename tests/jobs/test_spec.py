"""JobSpec: frozen, and the same after JSON."""

import pytest
from pydantic import ValidationError

from jobs.spec import Estimate, GpuWish, JobSpec, Resources, spec_hash

WHOLE = JobSpec(
    name="a",
    resources=Resources(gpu=(GpuWish(model="A100", count=2),), spot="auto", max_price=1),
    env={"A": "1", "B": "\u00e9\u2028"},
    run="x",
    outputs=("a",),
    budget=10**15,
    estimate=Estimate(hours=1.5, on="A100"),
)


@pytest.mark.parametrize("spec", [JobSpec(run="x"), WHOLE])
def test_round_trip(spec: JobSpec) -> None:
    """JSON and back is the same spec with the same hash."""
    again = JobSpec.model_validate_json(spec.model_dump_json())
    assert again == spec
    assert spec_hash(again) == spec_hash(spec)


def test_hash() -> None:
    """The order of env makes no difference, any value does."""
    one, other = JobSpec(run="x", env={"A": "1", "B": "2"}), JobSpec(run="x", env={"B": "2", "A": "1"})
    assert spec_hash(one) == spec_hash(other) != spec_hash(JobSpec(run="x"))
    assert len(spec_hash(one)) == 64


def test_frozen() -> None:
    """A spec cannot be changed, and has no other fields."""
    with pytest.raises(ValidationError):
        WHOLE.run = "y"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        JobSpec.model_validate({"run": "x", "rnu": "y"})
