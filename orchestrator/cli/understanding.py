"""What submit understood, for people: limits, stop class, trust, bundle, offers, until when results are safe."""

from typing import Any

from jobs.money import usd
from jobs.units import size_text
from orchestrator.cli.output import money, per_hour
from orchestrator.cli.story import limits_text
from orchestrator.limits import Limits, limits_document
from orchestrator.placement import Candidate
from orchestrator.preview import Preview
from orchestrator.submit import Request
from orchestrator.views.instants import clock_text

SHOWN_OFFERS = 3
SHOWN_NAMES = 5


def lines(request: Request, limits: Limits, preview: Preview, left_out: list[str], zone: str) -> list[str]:
    """One line per fact, in the words of the job file."""
    resources = request.spec.resources
    said = [f"limits: {limits_text(limits, request.simulated)}"]
    said.append(f"stop class {resources.stop}, trust {resources.trust}, spot {str(resources.spot).lower()}")
    said.append(bundle_text(request, left_out))
    best = preview.ranking.candidates[:SHOWN_OFFERS]
    said += [f"offer: {_offer(candidate, request)}" for candidate in best]
    said += [f"{name} does not answer: {text}" for name, text in sorted(preview.faults.items())]
    if best:
        said.append(_safety(best[0], request, preview, zone))
    elif preview.ranking.refused:
        codes = sorted({refusal.code for refusal in preview.ranking.refused})
        said.append(f"none of {len(preview.ranking.refused)} offers fits now ({', '.join(codes)}); it will wait")
    else:
        said.append("nothing is offered now; it will wait")
    return said


def bundle_text(request: Request, left_out: list[str]) -> str:
    """How big the packed workdir is, and what stays here."""
    if request.bundle is None:
        return "no workdir: nothing is uploaded"
    more = f" and {len(left_out) - SHOWN_NAMES} more" if len(left_out) > SHOWN_NAMES else ""
    rest = f"; left out: {', '.join(left_out[:SHOWN_NAMES])}{more}" if left_out else "; nothing left out"
    return f"bundle {size_text(request.bundle.bytes)}{rest}"


def document(request: Request, limits: Limits, preview: Preview, left_out: list[str]) -> dict[str, Any]:
    """The JSON of --dry-run."""
    return {
        "name": request.spec.name or request.default_name,
        "simulated": request.simulated,
        "limits": limits_document(limits),
        "bundle": None if request.bundle is None else {"bytes": request.bundle.bytes, "left_out": left_out},
        "offers": [
            {
                "provider": candidate.offer.provider,
                "region": candidate.offer.region,
                "gpu": candidate.offer.gpu,
                "gpu_count": candidate.offer.gpu_count,
                "price_per_hour": usd(_per_hour(candidate, request)),
                "total": usd(candidate.total),
                "spot": candidate.offer.spot,
                "stop_class": candidate.offer.stop_class,
                "trust": candidate.offer.trust,
            }
            for candidate in preview.ranking.candidates[:SHOWN_OFFERS]
        ],
    }


def _per_hour(candidate: Candidate, request: Request) -> int:
    """The whole machine, disk included."""
    price = candidate.offer.price
    return price.per_hour + request.spec.resources.disk_gb * price.disk_per_gb_hour


def _offer(candidate: Candidate, request: Request) -> str:
    offer, simulated = candidate.offer, request.simulated
    count = f"{offer.gpu_count}x " if offer.gpu_count > 1 else ""
    spot = ", spot" if offer.spot else ""
    where = f"{count}{offer.gpu or 'no GPU'} on {offer.provider} {offer.region}".rstrip()
    price = per_hour(_per_hour(candidate, request), simulated)
    total, held = money(candidate.total, simulated), money(candidate.reserve, simulated)
    kind = f"stop class {offer.stop_class}, {offer.trust}{spot}"
    return f"{where}, {price}, about {total} for this job (up to {held} is held; {kind})"


def _safety(best: Candidate, request: Request, preview: Preview, zone: str) -> str:
    """Until when outputs outlive a computer that sleeps or is off when the job ends."""
    if not request.spec.outputs:
        return "no outputs are named: only the log comes home"
    end = clock_text(preview.now + best.lifetime - preview.rungs.fuse, preview.now, zone)
    if best.offer.stop_class == "none":
        return "results come home at the end; while this computer is off nothing stops that machine"
    return (
        f"results come home at the end; should this computer sleep then, the machine keeps them until about {end}, "
        "and what was not fetched by then is lost (no store is set)"
    )
