"""Values that rest in the database as JSON, read back."""

from orchestrator.db.models import Machine
from providers.base import Offer, PriceParts


def offer_of(machine: Machine) -> Offer:
    """The offer that the machine was rented from."""
    facts = dict(machine.offer)
    return Offer(**{**facts, "price": PriceParts(**facts["price"])})
