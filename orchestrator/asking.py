"""Questions and orders to a provider, each behind the shared rate limit."""

from orchestrator.db.models import Machine
from orchestrator.rows import offer_of
from orchestrator.world import World
from providers.base import Gone, Listing, Order, Provider, Refused, Sighting


def provider_of(world: World, name: str) -> Provider:
    """The provider by name. Raises Refused when this process has no key for it."""
    if name not in world.providers:
        raise Refused(f"no key for {name}: gpupoor login {name}")
    return world.providers[name]


def list_region(world: World, provider: str, region: str) -> Listing:
    """Every machine of a region. Raises ProviderError."""
    world.limiter.wait(provider, "list")
    return provider_of(world, provider).list_machines(region)


def look_up(world: World, machine: Machine) -> tuple[Sighting | None, Listing]:
    """The machine with this row's label, found in its region, and the list that was looked at."""
    listing = list_region(world, machine.provider, machine.region)
    found = [seen for seen in listing.machines if seen.label == machine.label]
    return (found[0] if found else None), listing


def get(world: World, machine: Machine) -> Sighting | None:
    """The machine as its provider shows it now, None where it is not known. Raises ProviderError but not Gone."""
    assert machine.provider_id is not None
    world.limiter.wait(machine.provider, "list")
    try:
        return provider_of(world, machine.provider).get(machine.region, machine.provider_id)
    except Gone:
        return None


def release(world: World, machine: Machine) -> None:
    """Ask for the machine's end. Raises ProviderError but not Gone."""
    assert machine.provider_id is not None
    world.limiter.wait(machine.provider, "release")
    try:
        provider_of(world, machine.provider).release(machine.region, machine.provider_id)
    except Gone:
        return


def rent(world: World, machine: Machine, image: str, boot_text: str) -> Sighting:
    """Send the create call that the row describes. Raises ProviderError."""
    world.limiter.wait(machine.provider, "rent")
    order = Order(
        offer=offer_of(machine),
        label=machine.label,
        token=machine.token,
        stop_at=machine.stop_at,
        public_key=machine.ssh_public,
        disk_gb=machine.disk_gb,
        image=image,
        boot_text=boot_text,
    )
    return provider_of(world, machine.provider).rent(order, machine.send_by)
