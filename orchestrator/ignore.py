"""Which files of a workdir are meant to stay at home: the rules of git, asked name by name from the top down."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

_GIT: Final = ".gitignore"
_OURS: Final = ".gpupoorignore"


@dataclass(frozen=True)
class _Line:
    """One pattern. regex sees paths below the folder of its file."""

    regex: re.Pattern[str]
    ignores: bool
    folders_only: bool

    def matches(self, path: str) -> bool:
        """Whether it means this very path: the regex of `a` would also accept `a/b`, which git never asks it."""
        if not self.regex.pattern.startswith("^"):
            return True  # `*`, `**`, `*/`: anything
        if "ps_d" in self.regex.groupindex:
            return self.regex.fullmatch(path) is not None
        return self.regex.match(path) is not None


@dataclass(frozen=True)
class _Rules:
    """The patterns of one file. base: its folder as a prefix of paths ('' or 'a/b/'); above: the workdir below it."""

    shown: str
    base: str
    above: str
    lines: tuple[_Line, ...]

    def judge(self, path: str, is_folder: bool) -> bool | None:
        """Whether `path` is ignored; None where no line says anything. The last line that matches wins."""
        inner = self.above + path[len(self.base) :]
        for line in reversed(self.lines):
            if (is_folder or not line.folders_only) and line.matches(inner + "/" if line.folders_only else inner):
                return line.ignores
        return None


@dataclass(frozen=True)
class IgnoreRules:
    """The rules that hold in one folder of the workdir, the nearest last."""

    rules: tuple[_Rules, ...] = ()

    def below(self, folder: Path, base: str) -> "IgnoreRules":
        """With the ignore files that stand in `folder`, whose paths begin with `base`."""
        found = (_read(folder / name, base + name, base) for name in (_GIT, _OURS) if name == _GIT or not base)
        return IgnoreRules(self.rules + tuple(one for one in found if one is not None))

    def why_ignored(self, path: str, is_folder: bool) -> str | None:
        """The file that says so, or None where `path` is not ignored. Its folder must not be ignored itself."""
        for one in reversed(self.rules):
            judged = one.judge(path, is_folder)
            if judged is not None:
                return one.shown if judged else None
        return None


def rules_above(workdir: Path) -> IgnoreRules:
    """What the repository around `workdir` says: its exclude file, and the ignore files above, from its root down."""
    root = next((folder for folder in (workdir, *workdir.parents) if (folder / ".git").exists()), None)
    if root is None:
        return IgnoreRules()
    steps = workdir.relative_to(root).parts
    found = [_read(root / ".git" / "info" / "exclude", ".git/info/exclude", "", "".join(f"{part}/" for part in steps))]
    for depth in range(len(steps)):
        above = "".join(f"{part}/" for part in steps[depth:])
        found.append(_read(root.joinpath(*steps[:depth], _GIT), "../" * (len(steps) - depth) + _GIT, "", above))
    return IgnoreRules(tuple(one for one in found if one is not None))


def _read(path: Path, shown: str, base: str, above: str = "") -> _Rules | None:
    try:
        text = os.fsdecode(path.read_bytes()) if not path.is_symlink() else ""
    except OSError:
        return None
    lines = [_parse(line.removesuffix("\r")) for line in text.removeprefix("\ufeff").split("\n")]
    kept = tuple(line for line in lines if line is not None)
    return _Rules(shown, base, above, kept) if kept else None


def _parse(text: str) -> _Line | None:
    """None for what git passes over too: empty lines, comments, and patterns that are none."""
    try:
        pattern = GitIgnoreSpecPattern(text)
    except ValueError:
        return None
    if pattern.include is None or pattern.regex is None:
        return None
    bare = re.sub(r"(?<!\\) +$", "", text)
    return _Line(pattern.regex, pattern.include, bare.endswith("/"))
