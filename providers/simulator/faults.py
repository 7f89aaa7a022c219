"""Faults by rule: which call or machine is hurt, how often, for how long. Values only; the clock is handed in.

The first rule that matches wins. A rule lets its first `after` matches through, then hurts `times` of them
(0: all); with `for_s` it matches only for so many cloud seconds after it was put up. Calls (create, list, get,
delete, offers) and calls of nvidia-smi (gpu) count each time, boot, ssh, disk and spot count machines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from jobs.money import SECOND
from providers.simulator.deeds import DEEDS, check_deed
from providers.simulator.offers import FIELDS as OFFER_FIELDS

CALLS: Final = ("create", "list", "get", "delete", "offers")
HOST_WORDS: Final = ("boot", "ssh", "gpu", "disk", "spot")
RULE_FIELDS: Final = ("on", "provider", "match", "after", "times", "for_s", "do")
MACHINE_FIELDS: Final = (
    *("id", "provider", "region", "label", "gpu", "gpu_count", "spot", "state"),
    *("created_at", "ended_at", "price_per_hour", "cost", "home"),
)


@dataclass
class Rule:
    """One rule and its counts. times: 0 for always. hits: how often it hurt.

    seen: matches so far. machines: the machines it has counted, in order (host words other than gpu).
    """

    said: Mapping[str, Any]
    on: str
    provider: str | None
    match: Mapping[str, Any]
    after: int
    times: int
    for_s: float | None
    do: Mapping[str, Any]
    posted_at: int
    hits: int = 0
    seen: int = 0
    machines: list[str] = field(default_factory=list)

    def in_time(self, now: int) -> bool:
        """Whether its window (if it has one) is open."""
        return self.for_s is None or now < self.posted_at + round(self.for_s * SECOND)

    def spent(self) -> bool:
        """Whether it has hurt as often as it may."""
        return bool(self.times) and self.seen >= self.after + self.times

    def fits(self, fields: Mapping[str, object]) -> bool:
        """Whether every field of `match` has that value (numbers and amounts compare as numbers)."""
        return all(name in fields and _same(fields[name], value) for name, value in self.match.items())

    def word(self) -> str | None:
        """The state word of `states` for the hit that was just counted; the last one stays."""
        words = self.do.get("states")
        return words[min(self.hits, len(words)) - 1] if words else None


class Faults:
    """The rules of one cloud. They change only by `replace`; the counts change with every look.

    counted: how many matches were counted since it was made.
    """

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = list(rules)
        self.counted = 0

    def replace(self, rules: Sequence[Rule]) -> None:
        """Put up other rules in place of all."""
        self.rules = list(rules)

    def on_call(self, on: str, provider: str, subjects: Sequence[Mapping[str, object]], now: int) -> Rule | None:
        """Count one call; the rule that hurts it, or None. subjects: the offers or machines that it is about."""
        return self._count(self._first(on, provider, subjects, now))

    def peek(self, on: str, provider: str, fields: Mapping[str, object], now: int) -> Rule | None:
        """The rule that would hurt the next call, without counting it."""
        rule = self._first(on, provider, [fields], now)
        return rule if rule is not None and rule.seen >= rule.after else None

    def on_machine(self, on: str, provider: str, fields: Mapping[str, object], now: int) -> Rule | None:
        """The rule that hurts this machine now; a machine counts once for each rule, however often it is asked for."""
        machine = str(fields["id"])
        for rule in self.rules:
            if rule.on != on or rule.provider not in (None, provider) or not rule.in_time(now):
                continue
            if machine not in rule.machines:
                if rule.spent() or not rule.fits(fields):
                    continue
                rule.machines.append(machine)
                return self._count(rule)
            if rule.machines.index(machine) >= rule.after:
                return rule
            return None
        return None

    def _first(self, on: str, provider: str, subjects: Sequence[Mapping[str, object]], now: int) -> Rule | None:
        for rule in self.rules:
            wanted = rule.on == on and rule.provider in (None, provider) and rule.in_time(now) and not rule.spent()
            if wanted and (not rule.match or any(rule.fits(fields) for fields in subjects)):
                return rule
        return None

    def _count(self, rule: Rule | None) -> Rule | None:
        if rule is None:
            return None
        self.counted += 1
        rule.seen += 1
        if rule.seen <= rule.after:
            return None
        rule.hits += 1
        return rule

    def show(self) -> list[dict[str, object]]:
        """[{rule, hits}] in order."""
        return [{"rule": dict(rule.said), "hits": rule.hits} for rule in self.rules]

    def dump(self) -> list[dict[str, Any]]:
        """Rules and counts as a value for JSON."""
        return [
            {"said": rule.said, "at": rule.posted_at, "hits": rule.hits, "seen": rule.seen, "machines": rule.machines}
            for rule in self.rules
        ]

    @classmethod
    def load(cls, values: Sequence[Mapping[str, Any]]) -> "Faults":
        """From `dump`."""
        rules = []
        for value in values:
            rule = read_rule(value["said"], value["at"])
            rule.hits, rule.seen, rule.machines = value["hits"], value["seen"], list(value["machines"])
            rules.append(rule)
        return cls(rules)


def read_rules(said: object, now: int) -> list[Rule]:
    """The rules of `{"rules": [...]}` (or of the bare list), put up at `now`. Raises ValueError with the reason."""
    if isinstance(said, Mapping):
        for name in said:
            if name != "rules":
                raise ValueError(f'unknown field {name!r}; write {{"rules": [...]}}')
        said = said.get("rules")
    if not isinstance(said, Sequence) or isinstance(said, str):
        raise ValueError('write {"rules": [...]}')  # noqa: TRY004
    rules = []
    for number, one in enumerate(said):
        try:
            rules.append(read_rule(one, now))
        except ValueError as error:
            raise ValueError(f"rules[{number}]: {error}") from None
    return rules


def read_rule(said: object, now: int) -> Rule:
    """One rule. Raises ValueError with the reason."""
    if not isinstance(said, Mapping):
        raise ValueError("a rule is an object")  # noqa: TRY004
    for name in said:
        if name not in RULE_FIELDS:
            raise ValueError(f"unknown field {name!r}; there are: {', '.join(RULE_FIELDS)}")
    on = said.get("on")
    if on not in CALLS + HOST_WORDS:
        raise ValueError(f"on is {on!r}; write one of {', '.join(CALLS + HOST_WORDS)}")
    match, do = said.get("match") or {}, said.get("do")
    known = (*OFFER_FIELDS, "id", "spot", "label") if on in ("create", "offers") else MACHINE_FIELDS
    _check_names("match", match, known)
    _check_names("do", do, tuple(DEEDS))
    assert isinstance(match, Mapping) and isinstance(do, Mapping)
    for deed, value in do.items():
        check_deed(on, deed, value)
    provider = said.get("provider")
    if provider is not None and not isinstance(provider, str):
        raise ValueError("provider is a name")
    for_s = said.get("for_s")
    if for_s is not None and (isinstance(for_s, bool) or not isinstance(for_s, int | float) or for_s < 0):
        raise ValueError("for_s is a number of seconds, zero or more")
    always = for_s is not None or "states" in do
    default = 0 if always else int(do.get("hold_until", 1))
    return Rule(
        said=dict(said),
        on=on,
        provider=provider,
        match=dict(match),
        after=_whole(said, "after", 0),
        times=_whole(said, "times", default),
        for_s=for_s,
        do=dict(do),
        posted_at=now,
    )


def _check_names(what: str, value: object, known: Sequence[str]) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} is an object")  # noqa: TRY004
    for name in value:
        if name not in known:
            raise ValueError(
                f"unknown {'deed' if what == 'do' else 'field'} {name!r} in {what}; there are: {', '.join(known)}"
            )


def _whole(said: Mapping[str, Any], name: str, default: int) -> int:
    value = said.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} is a whole number, zero or more")
    return value


def _same(left: object, right: object) -> bool:
    if left == right:
        return True
    if isinstance(left, bool) or isinstance(right, bool) or left is None or right is None:
        return False
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return all(name in left and _same(left[name], value) for name, value in right.items())
    try:
        return Decimal(str(left)) == Decimal(str(right))
    except InvalidOperation:
        return False
