"""How one value of a job file is read: from a node to a checked value, or to a fault at its place.

Every reader has the shape `read(node, field, faults)`: `field` is the name to print
(`resources.disk`); it answers the value, or None after it has added a fault. A message says
what is wrong and what would be right.
"""

import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from difflib import get_close_matches

from jobs.money import parse_usd
from jobs.strict_yaml import TEMPLATE_TEXT, Fault, Listing, Node, Scalar, Section
from jobs.units import parse_duration, parse_size

Faults = list[Fault]
Reader = Callable[[Node, str, Faults], object]

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_WORD = re.compile(r"[a-z0-9][a-z0-9-]*", re.ASCII)
_KINDS = {Scalar: "one value", Listing: "a list", Section: "a section of keys"}


def did_you_mean(word: str, known: Collection[str]) -> str:
    """`did you mean X?`, or the list of what is known."""
    swapped = [other for other in known if sorted(other) == sorted(word.lower())]
    swapped.sort(key=lambda other: sum(one != two for one, two in zip(other, word.lower(), strict=True)))
    close = swapped or get_close_matches(word.lower(), known, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else "known here: " + ", ".join(sorted(known))


def section(node: Node, field: str, faults: Faults, example: str) -> Section | None:
    """A section of keys; `example` is what would be right."""
    if isinstance(node, Section) and node.items:
        return node
    faults.append(Fault(node.place, f"{field} {_is_empty_or_other(node, 'a section of keys')}; write {example}"))
    return None


def listing(node: Node, field: str, faults: Faults, example: str) -> Listing | None:
    """A list; `example` is what would be right."""
    if isinstance(node, Listing):
        return node
    faults.append(Fault(node.place, f"{field} {_is_empty_or_other(node, 'a list')}; write {example}"))
    return None


def scalar(node: Node, field: str, faults: Faults, example: str) -> Scalar | None:
    """One value that was really written, and is no template; `example` is what would be right."""
    if not isinstance(node, Scalar) or node.null:
        faults.append(Fault(node.place, f"{field} {_is_empty_or_other(node, 'one value')}; write {example}"))
        return None
    if "{{" in node.text or unstorable(node.text):
        what = TEMPLATE_TEXT if "{{" in node.text else "has bytes in it that are not UTF-8 text; remove them"
        faults.append(Fault(node.place, f"{field} {what}"))
        return None
    return node


def unstorable(text: str) -> bool:
    """Whether `text` holds what neither JSON nor a shell can carry: a zero byte, or half a character."""
    return any(sign == "\0" or "\ud800" <= sign <= "\udfff" for sign in text)


def keys(node: Section, field: str, faults: Faults, readers: Mapping[str, Reader]) -> dict[str, object]:
    """What `readers` read of a section, by key; unknown keys are faults, and what is faulty is left out."""
    values: dict[str, object] = {}
    for key, value in node.items:
        label = f"{field}.{key.text}" if field else key.text
        reader = readers.get(key.text)
        if reader is None:
            faults.append(Fault(key.place, f"{label} is not known; {did_you_mean(key.text, readers)}"))
            continue
        found = reader(value, label, faults)
        if found is not None:
            values[key.text] = found
    return values


def parsed(parse: Callable[[str], object], example: str) -> Reader:
    """A reader of one value through `parse`, whose ValueError says what is wrong and what would be right."""

    def read(node: Node, field: str, faults: Faults) -> object:
        found = scalar(node, field, faults, example)
        if found is None:
            return None
        try:
            return parse(found.text)
        except ValueError as error:
            faults.append(Fault(found.place, f"{field}: {error}"))
            return None

    return read


def list_of(parse: Callable[[str], object], example: str) -> Reader:
    """A reader of a list of different values, each through `parse`."""
    one = parsed(parse, example)

    def read(node: Node, field: str, faults: Faults) -> object:
        better = node.text if isinstance(node, Scalar) and not node.null else example
        found = listing(node, field, faults, f"[{better}]")
        if found is None:
            return None
        values: list[object] = []
        for item in found.items:
            value = one(item, field, faults)
            if value is not None and value in values:
                faults.append(Fault(item.place, f"{field} names {value} twice; keep one"))
            elif value is not None:
                values.append(value)
        return tuple(values)

    return read


def whole(least: int, most: int) -> Callable[[str], int]:
    """A parser of whole numbers, least <= n <= most."""

    def parse(text: str) -> int:
        if re.fullmatch(r"\d+\+", text):
            raise ValueError(f"{text!r} is not a whole number; write {text[:-1]}, which means at least so many")
        if not re.fullmatch(r"-?\d{1,9}", text, re.ASCII):
            raise ValueError(f"{text!r} is not a whole number; write one from {least} to {most}")
        _no_leading_zero(text)
        if not least <= int(text) <= most:
            raise ValueError(f"{text} is out of range; write a whole number from {least} to {most}")
        return int(text)

    return parse


def decimal_above_zero(text: str) -> float:
    """A number above zero with decimals."""
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text, re.ASCII):
        raise ValueError(f"{text!r} is not a number; write one like 2 or 1.5")
    _no_leading_zero(text)
    if float(text) <= 0:
        raise ValueError("must be more than 0; write one like 2 or 1.5")
    return float(text)


def money(text: str) -> int:
    """Micro-dollars above zero."""
    if bare := re.fullmatch(r"\$\s*([\d.]+)|([\d.]+)\s*(?:\$|USD|usd)", text, re.ASCII):
        raise ValueError(f"{text!r} has a sign of money; write {bare[1] or bare[2]}, always US dollars")
    if not re.fullmatch(r"\d{1,10}(\.\d{1,6})?", text, re.ASCII):
        raise ValueError(f"{text!r} is not an amount of dollars; write one like 5 or 2.50, with up to six decimals")
    _no_leading_zero(text)
    micro = parse_usd(text)
    if micro <= 0:
        raise ValueError("must be more than 0; write dollars like 5 or 2.50")
    return micro


def duration(text: str) -> int:
    """Microseconds above zero."""
    micros = parse_duration(text)
    if micros <= 0:
        raise ValueError("must be more than 0; write one like 90s, 10m, 1.5h or 2d")
    return micros


def size_gb(text: str) -> float:
    """GB above zero; a bare number is GB."""
    _no_leading_zero(text)
    size = parse_size(text, bare="GB") / 10**9
    if size <= 0:
        raise ValueError("must be more than 0; write one like 100 (GB), 500MB or 24GB")
    return size


def whole_gb(text: str) -> int:
    """GB above zero, rounded up to whole ones; a bare number is GB."""
    return -int(-size_gb(text) // 1)


def one_of(*words: str) -> Callable[[str], str]:
    """A parser of one of some words, as they are written."""

    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text!r} is not known; {did_you_mean(text, words)}")
        return text

    return parse


def handle_word(most: int) -> Callable[[str], str]:
    """A parser of a name of small letters, digits and `-`, at most so long: handles and labels are made of it."""

    def parse(text: str) -> str:
        if _WORD.fullmatch(text) and len(text) <= most and not text.endswith("-"):
            return text
        better = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:most].strip("-") or "my-job"
        raise ValueError(f"{text!r} is not a name of at most {most} of a-z, 0-9 and -; write {better}")

    return parse


def variable(text: str) -> str:
    """The name of an environment variable."""
    if not _VARIABLE.fullmatch(text):
        raise ValueError(f"{text!r} is not the name of a variable; use letters, digits and _, like HF_TOKEN")
    return text


def plain_word(text: str) -> str:
    """Text on one line without spaces or control characters."""
    if re.search(r"[\s\x00-\x1f\x7f]", text) or not text:
        raise ValueError(f"{text!r} has spaces in it; write one word")
    return text


def moment(text: str) -> str:
    """A moment with its zone, RFC 3339."""
    try:
        has_zone = datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        has_zone = False
    if not has_zone:
        raise ValueError(f"{text!r} is not a moment with its zone; write one like 2030-01-31T18:00Z")
    return text


def path(text: str) -> str:
    """A path, as it is written."""
    if not text or re.search(r"[\x00-\x1f\x7f]", text):
        raise ValueError(f"{text!r} is not a path; write one without control characters")
    if "://" in text:
        raise ValueError(f"{text!r} is an address; write a folder on this computer")
    return text


def relative_path(text: str) -> str:
    """A path below the folder in which the job runs, without `./` and `/` at its ends."""
    better = "write it from the folder where the job runs, like results"
    parts = [part for part in path(text).split("/") if part not in ("", ".")]
    if text.startswith(("/", "~", "$")) or "\\" in text:
        raise ValueError(f"{text!r} is not a relative path; {better}")
    if ".." in parts:
        raise ValueError(f"{text!r} leads out of the job's folder; {better}")
    if not parts:
        raise ValueError(f"{text!r} is the whole folder of the job; name the files or folders to bring home")
    if re.search(r"[*?]", text):
        raise ValueError(f"{text!r} is a pattern; name the folder or the file itself")
    return "/".join(parts)


def _no_leading_zero(text: str) -> None:
    if re.match(r"-?0\d", text):
        better = text.lstrip("-0") or "0"
        raise ValueError(f"{text} begins with 0, which some take for octal; write {better}")


def _is_empty_or_other(node: Node, wanted: str) -> str:
    if isinstance(node, Scalar):
        return "is empty" if node.null or not node.text else f"is one value and not {wanted}"
    return f"is {_KINDS[type(node)]} and not {wanted}" if node.items else "is empty"
