"""Taking a job in: what is written, what is refused, and that a refusal leaves nothing."""

import io
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest
from sqlalchemy import select

from jobs.errors import RefusedByLimit, Usage
from jobs.money import HOUR
from orchestrator import caps
from orchestrator.blobs import FolderBlobs
from orchestrator.db.models import Balance, Event, Job
from orchestrator.limits import limit_text, understood
from orchestrator.settings import load
from orchestrator.submit import Bundle, handle_stem, rehearse, submit
from orchestrator.world import World
from tests.orchestrator.door_world import ListedIds, door_world, make_offer, make_request
from tests.orchestrator.standing_world import make_job, store


def jobs_of(world: World) -> list[Job]:
    """All job rows."""
    with world.database.read() as session:
        return list(session.scalars(select(Job)))


def test_an_accepted_job_is_queued_due_and_rung_for(tmp_path: Path) -> None:
    """One row in state queued, due now, its event beside it, and then the doorbell."""
    world = door_world(tmp_path)
    accepted = submit(world, make_request())
    (job,) = jobs_of(world)
    assert (job.id, job.handle, job.state, job.phase) == (accepted.id, "hello-a000", "queued", None)
    assert (job.due_at, job.submitted_at, job.budget, job.gpus) == (world.clock.now(), world.clock.now(), 5_000_000, 1)
    assert world.doorbell.rung == [("job", job.id)]
    with world.database.read() as session:
        assert [event.word for event in session.scalars(select(Event))] == ["submitted"]


def test_limits_name_their_origin(tmp_path: Path) -> None:
    """File, flag, setting and default are told apart for each limit."""
    settings = load({"HOME": str(tmp_path), "GPUPOOR_GRACE": "5m"})
    spec = make_request(spec={"max_duration": HOUR}).spec
    limits = understood(spec, settings, frozenset({"budget"}))
    assert {name: limit["from"] for name, limit in limits.items()} == {
        "budget": "flag", "max_duration": "file", "max_wait": "default", "grace": "setting",
        "boot_limit": "default", "max_gpus": "default", "max_per_hour": "default",
    }  # fmt: skip
    assert limit_text("grace", limits["grace"]["value"]) == "5m"
    assert limit_text("budget", limits["budget"]["value"]) == "5.00"


def test_the_default_budget_stands_in(tmp_path: Path) -> None:
    """A job that names no budget gets the default of the settings."""
    world = door_world(tmp_path, default_budget=2_000_000, origins={"default_budget": "setting"})
    submit(world, make_request(spec={"budget": None}))
    (job,) = jobs_of(world)
    assert job.limits["budget"] == {"value": 2_000_000, "from": "setting"}


def test_no_budget_at_all_is_wrong_usage(tmp_path: Path) -> None:
    """Neither file nor flag nor setting names a budget: exit 2, nothing queued."""
    world = door_world(tmp_path)
    with pytest.raises(Usage, match="--budget") as refused:
        submit(world, make_request(spec={"budget": None}))
    assert refused.value.exit_code == 2
    assert jobs_of(world) == []


def test_the_same_id_again_is_harmless(tmp_path: Path) -> None:
    """A repeat after a lost answer returns the same job and writes nothing."""
    world = door_world(tmp_path)
    first = submit(world, make_request(id="mine-1"))
    again = submit(world, make_request(id="mine-1"))
    assert (again.id, again.handle, again.repeated, first.repeated) == (first.id, first.handle, True, False)
    assert len(jobs_of(world)) == 1


def test_a_repeat_is_not_judged_by_todays_limits(tmp_path: Path) -> None:
    """The accepted job stands although it could not be accepted now."""
    world = door_world(tmp_path)
    submit(world, make_request(id="mine-1"))
    poor = replace(world, settings=replace(world.settings, max_gpus=0))
    assert submit(poor, make_request(id="mine-1")).repeated


def test_the_same_id_with_another_file_is_refused(tmp_path: Path) -> None:
    """An id belongs to one job file: exit 2."""
    world = door_world(tmp_path)
    submit(world, make_request(id="mine-1"))
    with pytest.raises(Usage, match="another job file"):
        submit(world, make_request(id="mine-1", spec={"run": "false"}))
    with pytest.raises(Usage, match="another job file"):
        submit(world, make_request(id="mine-1", simulated=False))


@pytest.mark.parametrize("id", ["", "a b", "x" * 65, "é", "a/b", "a\n"])
def test_an_id_of_another_form_is_refused(tmp_path: Path, id: str) -> None:
    """1 to 64 letters, digits, - or _."""
    with pytest.raises(Usage, match="--id"):
        submit(door_world(tmp_path), make_request(id=id))


def test_handles_are_unique_even_when_chance_repeats(tmp_path: Path) -> None:
    """A handle that somebody has is not given again."""
    world = replace(door_world(tmp_path), ids=ListedIds(shorts=["aaaa", "aaaa", "aaaa", "bbbb"]))
    assert [submit(world, make_request()).handle for _ in range(2)] == ["hello-aaaa", "hello-bbbb"]


@pytest.mark.parametrize(
    ("name", "stem"),
    [("My Résumé 'v1'", "my-r-sum-v1"), ("../../etc", "etc"), ("---", "job"), ("x" * 80, "x" * 40), ("A_b.c", "a-b-c")],
)
def test_a_handle_is_fit_for_folders_and_labels(name: str, stem: str) -> None:
    """Lower-case letters, digits and single dashes, at most 40."""
    assert handle_stem(name) == stem


def test_secrets_rest_sealed(tmp_path: Path) -> None:
    """The value stands nowhere in the home's files or the row in clear, and opens to name and value."""
    world = door_world(tmp_path)
    submit(world, make_request(secrets={"TOKEN": "marker-5e7f"}, spec={"secrets": ["TOKEN"]}))
    (job,) = jobs_of(world)
    assert job.secrets_sealed is not None
    assert world.vault.open(job.secrets_sealed) == b'{"TOKEN": "marker-5e7f"}'
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"marker-5e7f" in data for data in files)
    assert "marker-5e7f" not in repr(make_request(secrets={"TOKEN": "marker-5e7f"}))


def test_a_secret_without_a_value_is_wrong_usage(tmp_path: Path) -> None:
    """Said before anything is rented."""
    with pytest.raises(Usage, match="TOKEN"):
        submit(door_world(tmp_path), make_request(spec={"secrets": ["TOKEN"]}))


def test_the_bundle_is_stored_before_the_job_is_written(tmp_path: Path) -> None:
    """A job row never names a bundle that is not there; a failing store leaves no job."""

    class Full(FolderBlobs):
        def write(self, name: str, source: BinaryIO) -> int:
            raise OSError("disk full")

    world = door_world(tmp_path)
    bundle = Bundle(sha="ab" * 32, bytes=3, open=lambda: io.BytesIO(b"tar"))
    with pytest.raises(OSError, match="disk full"):
        submit(replace(world, blobs=Full(tmp_path / "full")), make_request(bundle=bundle))
    assert jobs_of(world) == []
    submit(world, make_request(bundle=bundle))
    (job,) = jobs_of(world)
    assert job.bundle == f"bundles/{'ab' * 32}"
    assert world.blobs.open(job.bundle).read() == b"tar"


def test_more_gpus_than_ever_allowed_are_refused_with_the_command(tmp_path: Path) -> None:
    """A job that could never start is refused at submit: exit 3, nothing queued."""
    world = door_world(tmp_path, offers=[make_offer(gpu_count=8)])
    with pytest.raises(RefusedByLimit, match="gpupoor config set max_gpus 8") as refused:
        submit(world, make_request(spec={"resources": {"gpu": [{"vram_gb": 24, "count": 8}]}}))
    assert refused.value.exit_code == 3
    assert jobs_of(world) == []


def test_a_second_wish_within_the_limit_is_enough(tmp_path: Path) -> None:
    """Refused only where every wish asks for too many."""
    wishes = {"resources": {"gpu": [{"vram_gb": 24, "count": 8}, {"vram_gb": 24}]}}
    assert not submit(door_world(tmp_path), make_request(spec=wishes)).repeated


def test_a_budget_that_pays_no_machine_is_refused(tmp_path: Path) -> None:
    """The amount that would be needed is named."""
    world = door_world(tmp_path)
    with pytest.raises(RefusedByLimit, match="--budget"):
        submit(world, make_request(spec={"budget": 1}))
    assert jobs_of(world) == []


def test_a_cap_below_the_smallest_reservation_is_refused(tmp_path: Path) -> None:
    """The job could not start in any month with this cap."""
    world = door_world(tmp_path)
    with world.database.write() as session:
        caps.set_cap(session, True, caps.OVERALL, "", "2026-12", 1_000_000)
    with pytest.raises(RefusedByLimit, match=r"is sim \$1\.00; raise it: gpupoor budget set [0-9.]+ --mock,"):
        submit(world, make_request())
    assert jobs_of(world) == []
    submit(world, make_request(spec={"budget": 900_000}))


def test_a_cap_of_the_other_world_does_not_count(tmp_path: Path) -> None:
    """Caps exist apart for simulated and real money."""
    world = door_world(tmp_path)
    with world.database.write() as session:
        caps.set_cap(session, False, caps.OVERALL, "", "2026-12", 0)
    assert submit(world, make_request()).handle


def test_max_per_hour_below_every_machine_is_refused(tmp_path: Path) -> None:
    """The command that raises it is named."""
    world = door_world(tmp_path, max_per_hour=100_000)
    with pytest.raises(RefusedByLimit, match=r"config set max_per_hour 0\.40"):
        submit(world, make_request())


def test_a_job_waits_where_nothing_is_offered(tmp_path: Path) -> None:
    """Without --now it is queued; with --now it is refused and nothing stands."""
    world = door_world(tmp_path, offers=[])
    with pytest.raises(RefusedByLimit, match="--now"):
        submit(world, make_request(now=True))
    assert jobs_of(world) == []
    assert submit(world, make_request()).preview is not None


def test_now_refuses_while_all_gpus_are_taken(tmp_path: Path) -> None:
    """The counter of the ledger decides: one GPU of one is held."""
    world = door_world(tmp_path)
    store(world, Balance(simulated=True, scope="gpus", name="", month="", settled=0, held=1))
    with pytest.raises(RefusedByLimit, match="max_gpus"):
        submit(world, make_request(now=True))
    assert jobs_of(world) == []


def test_now_refuses_behind_another_job(tmp_path: Path) -> None:
    """A job that waits for the same counter already comes first."""
    world = door_world(tmp_path)
    store(world, make_job(state="queued", phase=None, waiting_for="gpu_limit", waiting_on="gpus//", gpus=1))
    with pytest.raises(RefusedByLimit, match="before this one"):
        submit(world, make_request(now=True))
    assert len(jobs_of(world)) == 1


def test_now_takes_a_job_that_fits(tmp_path: Path) -> None:
    """Nothing stands in the way: accepted as always."""
    assert not submit(door_world(tmp_path), make_request(now=True)).repeated


def test_a_rehearsal_writes_nothing(tmp_path: Path) -> None:
    """The same answer, no row, no ring."""
    world = door_world(tmp_path)
    limits, preview = rehearse(world, make_request())
    assert limits["budget"]["value"] == 5_000_000
    assert [candidate.offer.id for candidate in preview.ranking.candidates] == ["o1"]
    assert jobs_of(world) == []
    assert world.doorbell.rung == []


def test_a_rehearsal_knows_the_ids_that_are_taken(tmp_path: Path) -> None:
    """The same id is fine with the same file and refused with another one, as it would be in earnest."""
    world = door_world(tmp_path)
    submit(world, make_request(id="mine"))
    rehearse(world, make_request(id="mine"))
    with pytest.raises(Usage, match="another job file"):
        rehearse(world, make_request(id="mine", spec={"budget": 4_000_000}))


def test_the_preview_shows_only_machines_within_max_gpus(tmp_path: Path) -> None:
    """An offer that could never be rented is not promised, however cheap it is."""
    world = door_world(tmp_path, offers=[make_offer("pair", 1_000, gpu_count=2), make_offer("one")])
    _, preview = rehearse(world, make_request(spec={"resources": {}}))
    assert [candidate.offer.id for candidate in preview.ranking.candidates] == ["one"]
