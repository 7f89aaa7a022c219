"""budget and spend, on a real database."""

import csv
import io
import json
from typing import Any

import pytest

from orchestrator import wiring
from orchestrator.db.models import Balance, Entry
from tests.orchestrator.cli.conftest import Run
from tests.orchestrator.standing_world import at, make_job, make_machine, store


def caps(run: Run, *words: str) -> list[dict[str, Any]]:
    """The caps of `budget -o json`."""
    found: list[dict[str, Any]] = json.loads(run("budget", "show", "-o", "json", *words).stdout)["caps"]
    return found


def test_nothing_set(run: Run) -> None:
    """With no cap the overall line stands there with none, and the command that sets one is named."""
    shown = run("budget")
    assert shown.exit_code == 0 and "gpupoor budget set" in shown.stderr
    assert [(row["scope"], row["cap"], row["free"]) for row in caps(run)] == [("overall", None, None)]


@pytest.mark.parametrize(("words", "scope", "name"), [
    ([], "overall", ""), (["--project", "thesis"], "project", "thesis"), (["--user", "ann"], "user", "ann"),
])  # fmt: skip
def test_set_and_clear(run: Run, words: list[str], scope: str, name: str) -> None:
    """A cap is set to the micro-dollar and cleared again."""
    assert run("budget", "set", "12.345678", *words).exit_code == 0
    assert [(r["scope"], r["name"], r["cap"]) for r in caps(run) if r["cap"]] == [(scope, name, "12.345678")]
    assert run("budget", "clear", *words).exit_code == 0
    assert [row for row in caps(run) if row["cap"]] == []


def test_a_later_month_inherits(run: Run) -> None:
    """A cap of one month counts in the later ones, and not before."""
    run("budget", "set", "7", "--month", "2026-03")
    assert [caps(run, "--month", month)[0]["cap"] for month in ("2026-02", "2026-03", "2027-01")] == [
        None,
        "7.00",
        "7.00",
    ]


def test_simulated_caps_are_apart(run: Run) -> None:
    """--mock, before or after the subcommand, means the simulated world, and what is printed says so."""
    run("budget", "set", "1", "--mock")
    run("budget", "--mock", "set", "2", "--project", "p")
    assert caps(run)[0]["cap"] is None
    assert [row["cap"] for row in caps(run, "--mock")] == ["1.00", "2.00"]
    shown = run("budget", "--mock").stdout
    assert shown.startswith("SIMULATED\n") and "sim $2.00" in shown


def test_a_mock_address_means_the_simulated_world(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUPOOR_MOCK_URL alone names the simulated world."""
    monkeypatch.setenv("GPUPOOR_MOCK_URL", "http://127.0.0.1:9")
    assert run("budget").stdout.startswith("SIMULATED\n")


@pytest.mark.parametrize(("words", "says"), [
    (["set", "five"], "2.50"), (["set", "-1"], "not less than nothing"), (["set", "1", "--project", ""], "nobody's"),
    (["clear", "--user", ""], "nobody's"), (["set", "1.0000001"], "six decimals"),
    (["set", "1", "--month", "13"], "2027-03"), (["set", "1", "--user", "a", "--project", "b"], "one of"),
    (["show", "--month", "2026-00"], "2027-03"), (["set"], "AMOUNT"),
])  # fmt: skip
def test_wrong_usage(run: Run, words: list[str], says: str) -> None:
    """What is wrong is exit 2 with what would be right, and nothing is changed."""
    ended = run("budget", *words)
    assert (ended.exit_code, says in ended.stderr) == (2, True), ended.stderr
    assert [row for row in caps(run) if row["cap"]] == []


def test_a_cap_below_what_is_held_is_said(run: Run) -> None:
    """Lowering a cap under what is spent and held is accepted, and its effect is said."""
    world = wiring.world(wiring.settings())
    month = json.loads(run("budget", "-o", "json").stdout)["month"]
    store(world, Balance(simulated=False, scope="overall", name="", month=month, settled=3_000_000, held=0))
    ended = run("budget", "set", "2")
    assert ended.exit_code == 0 and "$1.00 less than is spent and held" in ended.stderr
    assert caps(run)[0]["free"] == "-1.00"


def spent(run: Run) -> None:
    """An hour on one machine of a real job, in March."""
    world = wiring.world(wiring.settings())
    store(world, make_job(simulated=False), make_machine(simulated=False, state="gone"))
    for part, micro in (("gpu", 400_000), ("disk", 21)):
        store(world, Entry(
            key=part, at=0, kind="settle", simulated=False, job="job1", machine="m1", attempt=1, user="ann",
            project='a "b", c', provider="mock", gpu="RTX 4090", part=part, month="2026-03", micro=micro,
            from_at=at("2026-03-05T10:00:00"), to_at=at("2026-03-05T11:00:00")))  # fmt: skip


def test_spend(run: Run) -> None:
    """The ledger of a month, exact in JSON and rounded up in the table."""
    spent(run)
    document = json.loads(run("spend", "--month", "2026-03", "--by", "day", "-o", "json").stdout)
    assert document["rows"] == [{"key": "2026-03-05", "amount": "0.400021", "machine_seconds": 3600}]
    assert (document["month"], document["total"], document["provider_difference"]) == ("2026-03", "0.400021", None)
    shown = run("spend", "--month", "2026-03").stdout
    assert "job1-0000" in shown and "$0.401" in shown and "1:00:00" in shown
    assert json.loads(run("spend", "-o", "json", "--mock", "--month", "2026-03").stdout)["rows"] == []


def test_csv(run: Run) -> None:
    """--csv is one line per machine that any spreadsheet reads."""
    spent(run)
    [line] = csv.DictReader(io.StringIO(run("spend", "--month", "2026-03", "--csv").stdout))
    assert line == {
        "provider": "mock", "machine_id": "i-1", "start": "2026-03-05T10:00:00Z", "end": "2026-03-05T11:00:00Z",
        "amount": "0.400021", "project": 'a "b", c', "user": "ann",
    }  # fmt: skip
    assert run("spend", "--csv", "-o", "json").exit_code == 2
