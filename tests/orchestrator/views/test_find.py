"""Which job is meant."""

from pathlib import Path

import pytest

from jobs.errors import Usage
from orchestrator.views.find import find_job
from orchestrator.world import World
from tests.orchestrator.standing_world import make_job, make_world, store


def named(world: World, text: str | None, folder: str = "/here") -> str:
    """The id that is found."""
    with world.database.read() as session:
        return find_job(session, text, folder).id


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three jobs: two named `train`, the newer one real, and one named `train2` from another folder."""
    world = make_world(tmp_path)
    store(
        world,
        make_job("0aaa", handle="train-x1y2", name="train", submitted_at=1, folder="/here"),
        make_job("0abb", handle="train-z3z3", name="train", submitted_at=2, folder="/here", simulated=False),
        make_job("9ccc", handle="train2-q5q5", name="train2", submitted_at=3, folder="/there"),
    )
    return world


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("0aaa", "0aaa"), ("train-x1y2", "0aaa"), ("train", "0abb"), ("train-z", "0abb"), ("9", "9ccc"),
        ("0aa", "0aaa"), ("train2", "9ccc"), (None, "0abb"),
    ],
)  # fmt: skip
def test_a_job_is_found(world: World, text: str | None, id: str) -> None:
    """By id, handle, name (newest), unique prefix, or as the newest of this folder, in both worlds."""
    assert named(world, text) == id


@pytest.mark.parametrize("text", ["0a", "train-", "0"])
def test_an_ambiguous_prefix_is_refused(world: World, text: str) -> None:
    """The handles that it may mean are named."""
    with pytest.raises(Usage, match="train-z3z3"):
        named(world, text)


@pytest.mark.parametrize("text", ["nobody", "%", "train_", "TRAIN-X"])
def test_an_unknown_job_is_refused(world: World, text: str) -> None:
    """Wildcards of the database and other cases are no match."""
    with pytest.raises(Usage, match="no job"):
        named(world, text)


def test_an_empty_name_is_no_job(world: World) -> None:
    """A variable that was not set names nothing, least of all the newest job."""
    with pytest.raises(Usage, match="empty name"):
        named(world, "")


def test_a_folder_without_jobs_is_refused(world: World) -> None:
    """Nothing is guessed from other folders."""
    with pytest.raises(Usage, match="this folder"):
        named(world, None, "/elsewhere")
