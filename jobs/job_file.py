"""Reading a job file: text in, a JobSpec out, or every fault with its place and what would be right.

Pure: the text, the shell's variables and the flags are handed in. Every value is checked by
a reader of jobs/fields.py; a key that a later version will know is checked for its form and
refused with "not yet", so that nobody thinks it works.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobs import fields, strict_yaml
from jobs.errors import InvalidJob
from jobs.fields import Faults, Reader, list_of, parsed
from jobs.gpu_wish import model_name, read_gpu
from jobs.spec import Estimate, JobSpec, Resources
from jobs.strict_yaml import Fault, Listing, Node, Place, Scalar, Section

MOST_FAULTS = 50
NAME_LENGTH = 40

_SECRET_NAME = re.compile(r"(^|_)(TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASS|CREDENTIALS?)$|APIKEY$", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"[0-9a-f]{40}|(hf_|sk-|ghp_|github_pat_|glpat-|AKIA|rpa_|xox[bp]-)[A-Za-z0-9_-]{12,}")


@dataclass(frozen=True)
class JobFile:
    """A job file that was understood.

    given: the top-level keys that the file itself named (a limit's origin is "file" for these).
    warnings: one line each, with place; nothing in them is secret.
    """

    spec: JobSpec
    given: frozenset[str]
    warnings: tuple[str, ...] = ()


def read(
    text: str | bytes,
    name: str = "job.yaml",
    shell_env: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
    secrets: Sequence[str] = (),
) -> JobFile:
    """The job in `text` (UTF-8 where it is bytes), with `overrides` (`path=value`) laid over it.

    shell_env: where `env: {K:}` finds its value. secrets: names to add to the job's `secrets`.
    Raises InvalidJob with all faults, one line each: `file:line:column: what is wrong; what would be right`.
    """
    root, found = strict_yaml.load(text, name)
    faults: Faults = list(found)
    if root is None and not faults:
        root = Section((), Place(name, 1, 1))
    if isinstance(root, Section):
        given = frozenset(key.text for key, _ in root.items)
        for override in overrides:
            root = _laid_over(root, override, faults)
        job = _JobReader(shell_env or {}, secrets, faults)
        spec = job.read(root)
        if spec is not None and not faults:
            return JobFile(spec, given, tuple(job.warnings))
    elif root is not None:
        faults.append(Fault(root.place, "a job file is keys and values; write for example run: python train.py"))
    raise InvalidJob(_all_lines(faults))


def _all_lines(faults: Faults) -> str:
    ordered = sorted(faults, key=lambda fault: (fault.place.line == 0, fault.place.line, fault.place.column))
    lines = list(dict.fromkeys(str(fault) for fault in ordered))
    more = [f"and {len(lines) - MOST_FAULTS} more"] if len(lines) > MOST_FAULTS else []
    return "\n".join(lines[:MOST_FAULTS] + more)


def _laid_over(root: Section, override: str, faults: Faults) -> Section:
    """`root` with one `path=value`; `[..]` and `{..}` are read as YAML, anything else is text."""
    path, equals, text = override.partition("=")
    place = Place(f"--set {path}")
    words = path.split(".", 1)
    if not equals or not all(words):
        faults.append(Fault(place, f"{path!r} is not path=value; write one like resources.gpu=24GB"))
        return root
    value: Node = Scalar(text, place, plain=False)
    if text.startswith(("[", "{")) and words[0] not in ("env", "run", "setup"):
        node, wrong = strict_yaml.load(text, place.file)
        faults.extend(Fault(place, fault.text) for fault in wrong)
        if node is None:
            return root
        value = _placed(node, place)
    if len(words) == 2:
        inner = root.get(words[0]) or Section((), place)
        if isinstance(inner, Scalar) and inner.null:
            inner = Section((), place)
        if not isinstance(inner, Section):
            faults.append(Fault(place, f"{words[0]} has no keys in it; set {words[0]} as a whole"))
            return root
        value = inner.with_value(Scalar(words[1], place), value)
    return root.with_value(Scalar(words[0], place), value)


def _placed(node: Node, place: Place) -> Node:
    if isinstance(node, Scalar):
        return Scalar(node.text, place, node.plain)
    if isinstance(node, Listing):
        return Listing(tuple(_placed(item, place) for item in node.items), place)
    return Section(tuple((Scalar(key.text, place), _placed(value, place)) for key, value in node.items), place)


def _script(node: Node, field: str, faults: Faults) -> str | None:
    """Shell text; the only place where a template is the user's own business."""
    if isinstance(node, Scalar) and node.text.strip() and not node.null:
        if not fields.unstorable(node.text):
            return node.text
        faults.append(Fault(node.place, f"{field} has bytes in it that are not UTF-8 text; remove them"))
        return None
    what = (
        "is a list"
        if isinstance(node, Listing)
        else "is a section of keys"
        if isinstance(node, Section)
        else "is empty"
    )
    faults.append(Fault(node.place, f"{field} {what}; write text, several lines below `{field}: |`"))
    return None


def _python(text: str) -> str:
    if not re.fullmatch(r"3\.\d{1,2}(\.\d{1,2})?", text, re.ASCII):
        raise ValueError(f"{text!r} is not a version of Python 3; write one like 3.12")
    return text


def _secret_name(text: str) -> str:
    """The name of a secret; the text is never printed, it may be the secret itself."""
    try:
        name = fields.variable(text)
    except ValueError:
        name = ""
    if not name or _SECRET_VALUE.fullmatch(text):
        raise ValueError("one of them is not the name of a variable; write only names, like HF_TOKEN, never values")
    return name


def _spot(text: str) -> bool | str:
    if text not in ("true", "false", "auto"):
        words = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
        better = words.get(text.lower(), text.lower() if text.lower() in ("true", "false", "auto") else "")
        raise ValueError(f"{text!r} is not known; write {better or 'true, false or auto'}")
    return text if text == "auto" else text == "true"


_RESOURCES: dict[str, tuple[str, Reader]] = {
    "gpu": ("gpu", read_gpu),
    "cpus": ("cpus", parsed(fields.whole(1, 10_000), "8")),
    "memory": ("memory_gb", parsed(fields.size_gb, "32GB")),
    "disk": ("disk_gb", parsed(fields.whole_gb, "100GB")),
    "spot": ("spot", parsed(_spot, "true, false or auto")),
    "providers": ("providers", list_of(fields.plain_word, "runpod, vast")),
    "regions": ("regions", list_of(fields.plain_word, "us-east-1")),
    "trust": ("trust", parsed(fields.one_of("datacenter", "verified", "any"), "verified")),
    "stop": ("stop", parsed(fields.one_of("hard", "boot", "any"), "boot")),
    "max_price": ("max_price", parsed(fields.money, "0.80")),
}


def _resources(node: Node, field: str, faults: Faults) -> Resources | None:
    found = fields.section(node, field, faults, "keys below it, like gpu: 24GB, or leave it out")
    if found is None:
        return None
    values = fields.keys(found, field, faults, {key: reader for key, (_, reader) in _RESOURCES.items()})
    return Resources.model_validate({_RESOURCES[key][0]: value for key, value in values.items()})


def _estimate(node: Node, field: str, faults: Faults) -> Estimate | None:
    found = fields.section(node, field, faults, "{hours: 3, on: RTX4090}")
    if found is None:
        return None
    before = len(faults)
    values = fields.keys(found, field, faults, _ESTIMATE)
    for key in _ESTIMATE:
        if found.get(key) is None:
            faults.append(Fault(found.place, f"{field} has no {key}; write {{hours: 3, on: RTX4090}}"))
    return Estimate.model_validate(values) if len(faults) == before else None


_ESTIMATE: dict[str, Reader] = {
    "hours": parsed(fields.decimal_above_zero, "1.5"),
    "on": parsed(model_name, "RTX4090"),
}

_PLAIN: dict[str, Reader] = {
    "name": parsed(fields.handle_word(NAME_LENGTH), "my-job"),
    "project": parsed(fields.handle_word(NAME_LENGTH), "my-project"),
    "workdir": parsed(fields.path, "a folder, like ."),
    "resources": _resources,
    "image": parsed(fields.plain_word, "pytorch/pytorch:latest"),
    "python": parsed(_python, "3.12"),
    "secrets": list_of(_secret_name, "HF_TOKEN"),
    "setup": _script,
    "run": _script,
    "outputs": list_of(fields.relative_path, "results"),
    "budget": parsed(fields.money, "5 or 2.50"),
    "max_duration": parsed(fields.duration, "90m or 12h"),
    "max_wait": parsed(fields.duration, "2h"),
    "grace": parsed(fields.duration, "2m"),
    "boot_limit": parsed(fields.duration, "20m"),
    "retries": parsed(fields.whole(0, 100), "2"),
    "priority": parsed(fields.whole(-1000, 1000), "0"),
    "estimate": _estimate,
}


def _port(text: str) -> int:
    if ":" in text:
        raise ValueError(f"{text!r} is not a port; write {text.split(':')[-1]}")
    return fields.whole(1, 65535)(text)


def _checkpoint(node: Node, field: str, faults: Faults) -> object:
    found = fields.section(node, field, faults, "{path: checkpoints, every: 10m, keep: 2}")
    if found is None:
        return None
    if found.get("path") is None:
        faults.append(Fault(found.place, f"{field} has no path; write {{path: checkpoints, every: 10m, keep: 2}}"))
    readers: dict[str, Reader] = {
        "path": parsed(fields.relative_path, "checkpoints"),
        "every": parsed(fields.duration, "10m"),
        "keep": parsed(fields.whole(1, 100), "2"),
    }
    return fields.keys(found, field, faults, readers)


def _some_list(node: Node, field: str, faults: Faults) -> object:
    if isinstance(node, Section) and node.items:
        return node
    return fields.listing(node, field, faults, "a list")


_LATER: dict[str, Reader] = {
    "inputs": _some_list,
    "checkpoint": _checkpoint,
    "deadline": parsed(fields.moment, "2030-01-31T18:00Z"),
    "keep": parsed(fields.duration, "30m"),
    "stall": parsed(fields.duration, "30m"),
    "ports": list_of(_port, "8080"),
    "notify": list_of(fields.plain_word, "me@example.org"),
}

# What other tools call it, where the spelling is too far away for a guess.
_ELSEWHERE = {
    "accelerators": "resources.gpu", "gpu": "resources.gpu", "gpus": "resources.gpu", "disk": "resources.disk",
    "spot": "resources.spot", "providers": "resources.providers", "memory": "resources.memory",
    "envs": "env", "environment": "env", "commands": "run", "command": "run", "working_dir": "workdir",
    "file_mounts": "workdir and outputs", "docker": "image", "timeout": "max_duration", "max_time": "max_duration",
    "max_price": "resources.max_price or budget", "artifacts": "outputs", "results": "outputs", "retry": "retries",
}  # fmt: skip

KEYS = (*_PLAIN, "env")
RESOURCE_KEYS = tuple(_RESOURCES)


class _JobReader:
    """Reads all keys of one job; collects faults and warnings."""

    def __init__(self, shell_env: Mapping[str, str], secrets: Sequence[str], faults: Faults) -> None:
        self.shell_env = shell_env
        self.secrets = secrets
        self.faults = faults
        self.warnings: list[str] = []

    def read(self, root: Section) -> JobSpec | None:
        """The spec, or None after a fault."""
        readers = {**_PLAIN, "env": self._env, **dict.fromkeys(_LATER, self._later)}
        known = Section(tuple(item for item in root.items if self._known(item[0], readers)), root.place)
        values = fields.keys(known, "", self.faults, readers)
        if root.get("run") is None:
            self.faults.append(Fault(root.place, "there is no run; write what the job does, like run: python train.py"))
        values["secrets"] = self._all_secrets(values, root.get("env"))
        return None if self.faults else JobSpec.model_validate(values)

    def _known(self, key: Scalar, readers: Mapping[str, Reader]) -> bool:
        if key.text in readers:
            return True
        better = _ELSEWHERE.get(key.text.lower())
        text = f"did you mean {better}?" if better else fields.did_you_mean(key.text, KEYS)
        self.faults.append(Fault(key.place, f"{key.text} is not known; {text}"))
        return False

    def _later(self, node: Node, field: str, faults: Faults) -> None:
        before = len(faults)
        _LATER[field](node, field, faults)
        if len(faults) == before:
            faults.append(Fault(node.place, f"{field} is not yet supported by this version; leave it out"))

    def _env(self, node: Node, field: str, faults: Faults) -> dict[str, str] | None:
        found = fields.section(node, field, faults, "names and values below it, or leave it out")
        values: dict[str, str] = {}
        for key, value in found.items if found else ():
            before = len(faults)
            fields.parsed(fields.variable, "NAME")(key, field, faults)
            text = self._env_value(key, value, f"{field}.{key.text}")
            if text is not None and len(faults) == before:
                values[key.text] = text
        return values or None

    def _env_value(self, key: Scalar, value: Node, label: str) -> str | None:
        if not isinstance(value, Scalar):
            what = "a list" if isinstance(value, Listing) else "a section of keys"
            self.faults.append(Fault(value.place, f"{label} is {what} and not text; put the whole value in quotes"))
            return None
        text = self.shell_env.get(key.text) if value.missing else value.text
        if text is None:
            better = f'give it by --env {key.text}=..., set it in your shell, or write "" for an empty one'
            self.faults.append(Fault(key.place, f"{label} has no value; {better}"))
            return None
        if fields.unstorable(text):
            self.faults.append(Fault(value.place, f"{label} has bytes in it that are not UTF-8 text; remove them"))
            return None
        if _looks_secret(key.text, text):
            better = f"write secrets: [{key.text}] and give it by --secret {key.text}"
            self.warnings.append(f"{key.place}: {label} looks like a secret, and env is stored in clear; {better}")
        return text

    def _all_secrets(self, values: Mapping[str, object], env: Node | None) -> tuple[str, ...]:
        listed = values.get("secrets", ())
        assert isinstance(listed, tuple)
        for name in self.secrets:
            fields.parsed(_secret_name, "HF_TOKEN")(Scalar(name, Place("--secret")), "secrets", self.faults)
        names = tuple(dict.fromkeys((*listed, *self.secrets)))
        for key, _ in env.items if isinstance(env, Section) else ():
            if key.text in names:
                self.faults.append(Fault(key.place, f"{key.text} is in env and in secrets; keep it only in secrets"))
        return names


def _looks_secret(name: str, text: str) -> bool:
    return bool(text) and bool(_SECRET_NAME.search(name) or _SECRET_VALUE.fullmatch(text.strip()))
