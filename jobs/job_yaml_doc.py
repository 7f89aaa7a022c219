"""The page docs/job-yaml.md, made from the example and the spec, so that it cannot say something else than they do."""

import re
from collections.abc import Sequence

from pydantic import BaseModel

from jobs.spec import GpuWish, JobSpec, Resources

_HEAD = """\
# The job file

This page is made from `jobs/example.yaml` and the defaults in the code; `python -m docs.make` writes it.

Every value is text until its key says what it is: `no`, `010`, `1e-6` and `2012-10-17` are never turned into
something else. A key twice, anchors, aliases, merge keys, tags, templates and unknown keys are refused, each with
file, line and column, and with what would be right.

Durations: `90s`, `10m`, `1.5h`, `2d`, `1h30m`. Money: US dollars with up to six decimals. Sizes: `500MB`, `24GB`,
`1TB` (1 GB = 1,000,000,000 bytes), `16GiB`; where a key says so, a bare number is GB.
"""

_UNSAID = {
    "name": "made from the file's name",
    "project": "none",
    "workdir": "nothing is sent",
    "image": "the provider's",
    "python": "the machine's",
    "env": "none",
    "secrets": "none",
    "setup": "nothing",
    "run": "must be given",
    "outputs": "none",
    "budget": "setting `default_budget`",
    "max_duration": "as long as the budget lasts",
    "max_wait": "setting `max_wait`",
    "grace": "setting `grace`",
    "boot_limit": "setting `boot_limit`",
    "estimate": "none",
    "resources.gpu": "any machine",
    "resources.cpus": "any",
    "resources.memory": "any",
    "resources.providers": "all that have a key",
    "resources.regions": "all",
    "resources.max_price": "the budget's",
}
_FIELDS = {"memory": "memory_gb", "disk": "disk_gb"}


def text(example: str, settings: Sequence[tuple[str, str]]) -> str:
    """The whole page. example: jobs/example.yaml; settings: (name, default) as they are printed."""
    entries = _entries(example)
    parts = [_HEAD, "## Keys\n"]
    for key, prose, code in entries:
        parts.append(f"### {key}\n\n{prose}\n" + (f"\n```yaml\n{code}\n```\n" if code else ""))
    parts.append("## All defaults\n\n| key | default |\n|---|---|")
    parts += [f"| `{key}` | {_default(key)} |" for key, _, _ in entries if key != "resources"]
    parts.append(f"| `resources.gpu`: count | {GpuWish().count} |")
    parts.append("\n| setting | variable | default |\n|---|---|---|")
    parts += [f"| `{name}` | `GPUPOOR_{name.upper()}` | {default} |" for name, default in settings]
    return "\n".join(parts) + "\n"


def _entries(example: str) -> list[tuple[str, str, str]]:
    """(key, what it means, example) in the order of the example."""
    entries: list[tuple[str, str, str]] = []
    prose: list[str] = []
    parent = ""
    lines = example.splitlines()
    for at, line in enumerate(lines):
        if comment := re.fullmatch(r"\s*# (.*)", line):
            prose.append(comment[1])
        elif not line.strip():
            prose = []
        elif prose and (key := re.fullmatch(r"(\s*)([a-z_]+):(.*)", line)):
            parent = parent if key[1] else key[2]
            field = f"{parent}.{key[2]}" if key[1] else key[2]
            code = "" if field == "resources" else _code(lines[at:], len(key[1]))
            entries.append((field, " ".join(prose), code))
            prose = []
    return entries


def _code(lines: Sequence[str], indent: int) -> str:
    """The first line and those below it that are indented deeper."""
    code = [lines[0][indent:]]
    for line in lines[1:]:
        if not line.startswith(" " * (indent + 1)):
            break
        code.append(line[indent:])
    return "\n".join(code)


def _default(key: str) -> str:
    if key in _UNSAID:
        return _UNSAID[key]
    model: type[BaseModel] = Resources if key.startswith("resources.") else JobSpec
    name = key.rpartition(".")[2]
    value = model.model_fields[_FIELDS.get(name, name)].default
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{shown} GB" if name == "disk" else shown
