"""Jobs as text for people: the table, and the whole story of one."""

from collections.abc import Sequence

import click

from jobs.money import usd
from jobs.states import LIVE
from orchestrator.cli.output import clean, money, per_hour, print_table
from orchestrator.db.models import Attempt, Event
from orchestrator.ledger import used_so_far
from orchestrator.limits import MONEY_LIMITS, Limits, limit_text
from orchestrator.views.instants import clock_text, elapsed_text
from orchestrator.views.jobs import Rows, cost_of, current_machine, phase_costs, price_per_hour, stops_at

_HEADS = ("JOB", "STATE", "GPU", "RATE", "COST", "BUDGET", "TIME", "WHY")


def print_jobs(many: Sequence[Rows], now: int) -> None:
    """One line per job."""
    print_table(_HEADS, [_line(rows, now) for rows in many], right=("RATE", "COST", "BUDGET", "TIME"))


def _line(rows: Rows, now: int) -> list[object]:
    job, cost, machine = rows.job, cost_of(rows, now), current_machine(rows)
    lives = machine is not None and stops_at(rows) is not None
    return [
        job.handle,
        f"{job.state} ({job.phase})" if job.phase and job.phase != "run" else job.state,
        _gpu(machine.gpu, machine.gpu_count) if machine and (lives or job.state not in LIVE) else None,
        per_hour(price_per_hour(machine), job.simulated) if machine and lives else None,
        money(cost.settled + cost.running, job.simulated),
        money(job.budget, job.simulated),
        elapsed_text((job.ended_at or now) - job.submitted_at),
        why(rows) or "",
    ]


def why(rows: Rows) -> str | None:
    """Why a job waits, how it ended, or what is odd about it; None when there is nothing to say."""
    job = rows.job
    if job.wish == "cancel" and job.state in LIVE:
        return "being cancelled"
    if job.waiting_for:
        return f"waits for {job.waiting_for}: {job.waiting_reason}"
    if job.state in LIVE:
        return job.waiting_reason
    parts = [job.reason] if job.reason else []
    if job.results == "incomplete":
        parts.append("results incomplete")
    if job.cleanup == "pending":
        parts.append("its machine is being given back")
    return "; ".join(parts) or None


def print_story(rows: Rows, events: Sequence[Event], now: int, zone: str) -> None:
    """All about one job: why it waits, what it may spend, every attempt with its dollars, what happened when."""
    job, cost, stop = rows.job, cost_of(rows, now), stops_at(rows)
    mark = "  SIMULATED" if job.simulated else ""
    click.secho(f"{job.handle}  {job.state}{f' ({job.phase})' if job.phase else ''}{mark}", bold=True)
    project = f" · project {job.project}" if job.project else ""
    _say("id", f"{job.id} · name {job.name} · user {job.user}{project}")
    _say("submitted", clock_text(job.submitted_at, now, zone) + (f" from {job.folder}" if job.folder else ""))
    _say("why", why(rows))
    spent = money(cost.settled + cost.running, job.simulated)
    _say("money", f"{spent} of {money(job.budget, job.simulated)}, {money(cost.reserved, job.simulated)} more is held")
    if stop is not None:
        _say("stops", f"{clock_text(stop, now, zone)} at the latest ({elapsed_text(stop - now)} from now)")
    _say("limits", limits_text(job.limits, job.simulated))
    if job.state not in LIVE:
        code = "" if job.exit_code is None else f", exit code {job.exit_code}"
        _say("end", f"results {job.results}, clean-up {job.cleanup}{code}")
    if job.git:
        _say("git", f"{job.git['commit'][:12]}{' with changes' if job.git['dirty'] else ''}")
    for attempt in rows.attempts:
        _print_attempt(rows, attempt, now, zone)
    if events:
        click.echo("Events")
    for event in events:
        click.echo(clean(f"  {clock_text(event.at, now, zone)}  {event_text(event)}"))


def limits_text(limits: Limits, simulated: bool) -> str:
    """Every limit that is set, with where it came from."""
    said = []
    for name, limit in limits.items():
        value = limit["value"]
        if value is not None:
            text = money(value, simulated) if name in MONEY_LIMITS else limit_text(name, value)
            said.append(f"{name} {text} ({limit['from']})")
    return ", ".join(said)


def event_text(event: Event) -> str:
    """The word of an event and what belongs to it."""
    facts = ", ".join(f"{name} {value}" for name, value in sorted(event.data.items()) if value not in (None, ""))
    return f"{event.word.replace('_', ' ')}{f': {facts}' if facts else ''}"


def _print_attempt(rows: Rows, attempt: Attempt, now: int, zone: str) -> None:
    machine = next(m for m in rows.machines if m.id == attempt.machine)
    simulated = rows.job.simulated
    cost = used_so_far(machine, now) if machine.id in rows.open else rows.settled.get(machine.id, 0)
    click.echo(f"Attempt {attempt.number}: {attempt.outcome or 'goes on'}")
    where = " ".join(word for word in (machine.provider, machine.region, machine.provider_id or "") if word)
    price = per_hour(price_per_hour(machine), simulated)
    spot = ", spot" if machine.spot else ""
    gpu = _gpu(machine.gpu, machine.gpu_count)
    _say("machine", f"{gpu} on {where}, {price}{spot}, stop class {machine.stop_class}")
    _say("chosen", machine.offer_reason)
    end = f" to {clock_text(attempt.ended_at, now, zone)}" if attempt.ended_at else ""
    _say("time", f"{clock_text(attempt.started_at, now, zone)}{end}")
    shares = phase_costs(attempt, cost, now)
    phases = ", ".join(f"{phase} {'sim ' if simulated else ''}${usd(micro)}" for phase, micro in shares.items())
    _say("cost", f"{money(cost, simulated)}{f' ({phases})' if phases else ''}")


def _say(head: str, text: str | None) -> None:
    if text:
        click.echo(f"  {head:<10} {clean(text)}")


def _gpu(gpu: str, count: int) -> str:
    return f"{gpu}:{count}" if count > 1 else gpu or "no GPU"
