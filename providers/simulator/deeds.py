"""The deeds that a rule of the simulated cloud may do: their names, where they may stand, what their values are."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

_CALLS: Final = frozenset({"create", "list", "get", "delete", "offers"})
_HOSTS: Final = frozenset({"create", "boot", "ssh", "gpu", "disk", "spot"})


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _status(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 200 <= value <= 599


def _texts(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(one, str) for one in value)


def _words(value: object) -> bool:
    return _texts(value) and isinstance(value, Sequence) and len(value) > 0


def _headers(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    return all(
        isinstance(name, str) and isinstance(text, str | int | float) and not set("\r\n") & set(f"{name}{text}")
        for name, text in value.items()
    )


def _object(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _reborn(value: object) -> bool:
    if not isinstance(value, Mapping) or not set(value) <= {"after_s", "label"}:
        return False
    return _number(value.get("after_s", 0)) and _flag(value.get("label", True))


# deed -> (where it may stand, what its value must be, the same in words)
DEEDS: Final[dict[str, tuple[frozenset[str], Callable[[object], bool], str]]] = {
    "status": (_CALLS, _status, "an HTTP status of 200 to 599"),
    "body": (_CALLS, lambda _: True, "anything"),
    "headers": (_CALLS, _headers, "an object of header lines"),
    "done_then_status": (_CALLS, _status, "an HTTP status of 200 to 599"),
    "drop_answer": (_CALLS, _flag, "true or false"),
    "no_answer": (_CALLS, _flag, "true or false"),
    "refuse": (_CALLS, _flag, "true or false"),
    "delay_before_s": (_CALLS, _number, "seconds"),
    "delay_after_s": (_CALLS, _number, "seconds"),
    "hold_until": (_CALLS, _count, "a number of requests"),
    "hide_for_s": (_CALLS, _number, "seconds"),
    "empty": (_CALLS, _flag, "true or false"),
    "null": (_CALLS, _flag, "true or false"),
    "drop_fields": (_CALLS, _texts, "a list of field names"),
    "extra_fields": (_CALLS, _object, "an object"),
    "states": (_CALLS, _words, "a list of state words"),
    "unauthorized": (_CALLS, _flag, "true or false"),
    "no_capacity": (_CALLS, _flag, "true or false"),
    "price_factor": (_CALLS, _number, "a number"),
    "balance_empty": (_CALLS, _flag, "true or false"),
    "ghost_id": (frozenset({"create"}), _flag, "true or false"),
    "still_alive_s": (frozenset({"delete"}), _number, "seconds"),
    "reborn": (frozenset({"create", "delete", "spot"}), _reborn, '{"after_s": seconds, "label": true or false}'),
    "never_boots": (_HOSTS, _flag, "true or false"),
    "boot_s": (_HOSTS, _number, "seconds"),
    "sshd_s": (_HOSTS, _number, "seconds"),
    "banner_s": (_HOSTS, _number, "seconds"),
    "key_s": (_HOSTS, _number, "seconds"),
    "wrong_host_key": (_HOSTS, _flag, "true or false"),
    "new_port": (_HOSTS, _flag, "true or false"),
    "gpu_report": (_HOSTS, lambda value: isinstance(value, str), 'what nvidia-smi prints, or "hang"'),
    "disk_gb": (_HOSTS, _number, "GB"),
    "bandwidth_bytes_s": (_HOSTS, _number, "bytes per second"),
}


def check_deed(on: str, deed: str, value: object) -> None:
    """Raises ValueError with the reason when `deed` (one of DEEDS) may not stand on `on` or has a wrong value."""
    places, fits, words = DEEDS[deed]
    if on not in places:
        raise ValueError(f"{deed} does nothing on {on}; it may stand on {', '.join(sorted(places))}")
    if not fits(value):
        raise ValueError(f"{deed} is {value!r}; write {words}")
