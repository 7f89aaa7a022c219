"""`gpupoor offers`: what can be rented now, cheapest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from jobs.errors import Unanswered, Usage
from jobs.money import HOUR, usd
from orchestrator.cli.output import mock_option, money, output_option, per_hour, print_json, print_table, say
from orchestrator.cli.worlds import ask, print_world

if TYPE_CHECKING:
    from jobs.spec import GpuWish, JobSpec
    from orchestrator.placement import Ranking
    from orchestrator.world import World
    from providers.base import Offer

_NO_LIMIT = 10**15
_MOST_ROWS = 40


@click.command(epilog="Example: gpupoor offers --gpu A100-80GB:2 --spot")
@click.option("--gpu", metavar="WISH", help="24GB, RTX4090, A100-80GB:2: memory or a name, and how many.")
@click.option("--spot", is_flag=True, help="Machines that may be taken away, at a lower price.")
@click.option("--provider", "providers", metavar="P", multiple=True, help="Only this provider (may be repeated).")
@click.option("--why", is_flag=True, help="Also what was turned down, each with the reason.")
@output_option
@mock_option
def offers(gpu: str | None, spot: bool, providers: tuple[str, ...], why: bool, output: str, mock: bool) -> None:
    """What can be rented now, by the price of the whole machine with its disk.

    TOTAL is what one hour of work costs there, boot and billing steps included.
    """
    from orchestrator.offers import list_offers

    wishes = _read_wish(gpu)
    world, simulated = ask(mock, providers)
    found = list_offers(world, simulated, providers)
    for name, fault in sorted(world.board.faults.items()):
        say(f"{name} does not answer: {fault}")
    if not found and world.board.faults:
        raise Unanswered("no provider told its offers")
    spec = _as_job(wishes, spot, providers)
    ranking = _rank(world, spec, found)
    if output == "json":
        print_json(_documents(ranking, spec, why))
    else:
        _print(ranking, spec, why, simulated)


def _read_wish(text: str | None) -> tuple[GpuWish, ...]:
    if text is None:
        return ()
    from jobs.gpu_wish import read_gpu
    from jobs.strict_yaml import Fault, Place, Scalar

    faults: list[Fault] = []
    wishes = read_gpu(Scalar(text, Place("--gpu")), "gpu", faults)
    if faults or wishes is None:
        raise Usage("; ".join(str(fault) for fault in faults))
    return wishes


def _as_job(wishes: tuple[GpuWish, ...], spot: bool, providers: tuple[str, ...]) -> JobSpec:
    """The smallest job that has these wishes: the same functions judge offers here and for real jobs."""
    from jobs.spec import JobSpec, Resources

    return JobSpec(run="true", resources=Resources(gpu=wishes, spot=spot, providers=providers))


def _rank(world: World, spec: JobSpec, found: list[Offer]) -> Ranking:
    from sqlalchemy import select

    from orchestrator.db.models import BadHost
    from orchestrator.placement import Terms, decayed, rank

    settings, now = world.settings, world.clock.now()
    with world.database.read() as session:
        bad = {(row.provider, row.host): decayed(row.weight, now - row.at) for row in session.scalars(select(BadHost))}
    terms = Terms(
        now=now,
        budget_left=_NO_LIMIT,
        duration=HOUR,
        boot_limit=settings.boot_limit,
        grace=settings.grace,
        guard_every=settings.guard_every,
        bad_hosts=bad,
    )
    return rank(spec, found, terms)


def _documents(ranking: Ranking, spec: JobSpec, why: bool) -> list[dict[str, Any]]:
    fitting = [_document(each.offer, spec, each.total, None) for each in ranking.candidates]
    return fitting + [_document(each.offer, spec, None, each.text) for each in ranking.refused if why]


def _document(offer: Offer, spec: JobSpec, total: int | None, refused: str | None) -> dict[str, Any]:
    from orchestrator.views.instants import rfc3339

    return {
        "provider": offer.provider,
        "region": offer.region,
        "gpu": offer.gpu,
        "gpu_count": offer.gpu_count,
        "vram_gb": offer.vram_gb,
        "price_per_hour": usd(_with_disk(offer, spec)),
        "total": None if total is None else usd(total),
        "spot": offer.spot,
        "stop_class": offer.stop_class,
        "trust": offer.trust,
        "as_of": rfc3339(offer.as_of),
        "refused": refused,
    }


def _with_disk(offer: Offer, spec: JobSpec) -> int:
    return offer.price.per_hour + spec.resources.disk_gb * offer.price.disk_per_gb_hour


def _print(ranking: Ranking, spec: JobSpec, why: bool, simulated: bool) -> None:
    print_world(simulated)
    rows = [_row(each.offer, spec, money(each.total, simulated), simulated) for each in ranking.candidates]
    heads = ["GPU", "VRAM", "PRICE", "TOTAL", "SPOT", "STOP", "TRUST", "PROVIDER", "REGION"]
    print_table(heads, rows[:_MOST_ROWS], right=["VRAM", "PRICE", "TOTAL"])
    if len(rows) > _MOST_ROWS:
        say(f"and {len(rows) - _MOST_ROWS} dearer ones (-o json lists all)")
    if why and ranking.refused:
        click.echo("\nturned down:")
        refused = [(*_row(each.offer, spec, "-", simulated), each.text) for each in ranking.refused]
        print_table([*heads, "WHY"], refused, right=["VRAM", "PRICE", "TOTAL"])
    elif ranking.refused:
        say(f"{len(ranking.refused)} more were turned down; --why says why")


def _row(offer: Offer, spec: JobSpec, total: str, simulated: bool) -> tuple[str, ...]:
    gpu = f"{offer.gpu_count}x {offer.gpu}" if offer.gpu_count > 1 else offer.gpu
    price = per_hour(_with_disk(offer, spec), simulated)
    vram = f"{offer.vram_gb:g}GB"
    spot = "spot" if offer.spot else "-"
    return gpu, vram, price, total, spot, offer.stop_class, offer.trust, offer.provider, offer.region
