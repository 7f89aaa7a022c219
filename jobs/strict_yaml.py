"""A strict reader of YAML: every scalar stays the text that was written, and everything knows its place.

Only the parser of PyYAML is used; its events become our own three kinds of node. No value
is ever guessed (`no`, `010`, `1e-6`, `2012-10-17` are text), no object is built, and what
can surprise is refused: a key twice, anchors, aliases, merge keys, tags, a second document.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import yaml
from yaml import events as ev

MOST_BYTES = 1_000_000
MOST_NODES = 20_000
DEEPEST = 16

_TEMPLATE = re.compile(r"\{\{|\{%")
TEMPLATE_TEXT = "looks like a template, and templates are not filled in; write the value itself"


@dataclass(frozen=True)
class Place:
    """Where something was written; line and column count from 1, line 0: in no file (`file` says it all)."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True)
class Scalar:
    """One text, as it was written; plain: without quotes and not a block."""

    text: str
    place: Place
    plain: bool = True

    @property
    def missing(self) -> bool:
        """Whether nothing at all was written, as in `key:`."""
        return self.plain and not self.text

    @property
    def null(self) -> bool:
        """Whether YAML takes it for no value: `key:`, `~` or `null`."""
        return self.plain and self.text in ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True)
class Listing:
    """A list of nodes."""

    items: tuple["Node", ...]
    place: Place


@dataclass(frozen=True)
class Section:
    """Keys and values in the order of the file; no key stands twice."""

    items: tuple[tuple[Scalar, "Node"], ...]
    place: Place

    def get(self, key: str) -> "Node | None":
        """The value of `key`, or None."""
        return next((value for name, value in self.items if name.text == key), None)

    def with_value(self, key: Scalar, value: "Node") -> "Section":
        """The same with `key` set to `value`, in its old place or at the end."""
        items = [(name, value if name.text == key.text else old) for name, old in self.items]
        if all(name.text != key.text for name, _ in items):
            items.append((key, value))
        return replace(self, items=tuple(items))


Node = Scalar | Listing | Section


@dataclass(frozen=True)
class Fault:
    """What is wrong at a place, and what would be right."""

    place: Place
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


class _RefusedError(Exception):
    """The text cannot be read any further."""

    def __init__(self, place: Place, text: str) -> None:
        super().__init__(text)
        self.fault = Fault(place, text)


def load(source: str | bytes, file: str) -> tuple[Node | None, tuple[Fault, ...]]:
    """The document in `source`, and its faults; None: it is empty, or it cannot be read (then there is a fault)."""
    try:
        text = _text(source, file)
        faults: list[Fault] = []
        return _Builder(text, file, faults).document(), tuple(faults)
    except _RefusedError as refused:
        return None, (refused.fault,)


def _text(source: str | bytes, file: str) -> str:
    start = Place(file, 1, 1)
    if len(source) > MOST_BYTES:
        raise _RefusedError(start, f"is {len(source)} bytes long; a job file has at most {MOST_BYTES}")
    if isinstance(source, str):
        return source.removeprefix("\ufeff")
    if source.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _RefusedError(start, "is UTF-16 text; save it as UTF-8")
    try:
        return source.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = source[: error.start].decode().split("\n")
        place = Place(file, len(before), len(before[-1]) + 1)
        raise _RefusedError(place, f"byte 0x{source[error.start]:02x} is not UTF-8 text; save it as UTF-8") from None


class _Builder:
    """Turns the parser's events into nodes; a stack of our own, so that depth has a limit."""

    def __init__(self, text: str, file: str, faults: list[Fault]) -> None:
        self.file = file
        self.faults = faults
        self.nodes = 0
        self.lines = text.split("\n") if _TEMPLATE.search(text) else []
        self.events = self._events(text)

    def document(self) -> Node | None:
        """The one document; None: there is none."""
        root: Node | None = None
        documents = 0
        for event in self.events:
            if isinstance(event, ev.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _RefusedError(self._place(event), "a second document begins here; write one job in one file")
            elif isinstance(event, ev.NodeEvent):
                root = self._node(event, 0)
        return None if isinstance(root, Scalar) and root.null else root

    def _events(self, text: str) -> Iterator[ev.Event]:
        loader: yaml.BaseLoader | None = None
        try:
            loader = yaml.BaseLoader(text)
            while loader.check_event():
                event: ev.Event = loader.get_event()  # type: ignore[no-untyped-call]
                yield event
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = Place(self.file, mark.line + 1, mark.column + 1) if mark else Place(self.file, 1, 1)
            raise _RefusedError(place, self._syntax_text(place, error.problem or "it breaks off")) from None
        except yaml.reader.ReaderError as error:
            before = text[: error.position].split("\n")
            place = Place(self.file, len(before), len(before[-1]) + 1)
            sign = f"U+{ord(text[error.position]):04X}"
            raise _RefusedError(place, f"the character {sign} has no place in a job file; remove it") from None
        finally:
            if loader is not None:
                loader.dispose()

    def _syntax_text(self, place: Place, problem: str) -> str:
        if self._template_on(place.line):
            return TEMPLATE_TEXT
        if "'\\t'" in problem or "tab" in problem:
            return "a tab cannot indent YAML; use spaces"
        if "mapping values are not allowed" in problem:
            return "a second `: ` on this line, or a wrong indentation; put the value in quotes or indent it evenly"
        if "expected <block end>" in problem or "could not find expected ':'" in problem:
            return f"not YAML ({problem}); check the indentation of this line and the one before"
        return f"not YAML: {problem}; check this line and the one before"

    def _template_on(self, line: int) -> bool:
        return any(_TEMPLATE.search(text) for text in self.lines[max(line - 2, 0) : line])

    def _place(self, event: ev.Event) -> Place:
        mark = event.start_mark
        assert mark is not None
        return Place(self.file, mark.line + 1, mark.column + 1)

    def _node(self, event: ev.NodeEvent, depth: int) -> Node:
        place = self._place(event)
        if isinstance(event, ev.AliasEvent):
            raise _RefusedError(place, f"*{event.anchor} is an alias; write the value itself")
        if event.anchor is not None:
            raise _RefusedError(place, f"&{event.anchor} is an anchor; write the value where it is needed")
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!":
            raise _RefusedError(place, f"the tag {tag} is not read; write the value without it")
        self.nodes += 1
        if self.nodes > MOST_NODES:
            raise _RefusedError(
                place, f"here begins value number {MOST_NODES + 1}; a job file has at most {MOST_NODES}"
            )
        if depth > DEEPEST:
            raise _RefusedError(place, f"is nested deeper than {DEEPEST} levels; a job file needs at most 4")
        if isinstance(event, ev.ScalarEvent):
            return Scalar(event.value, place, event.style is None)
        if isinstance(event, ev.SequenceStartEvent):
            return Listing(tuple(self._inside(ev.SequenceEndEvent, depth)), place)
        return self._section(place, depth)

    def _inside(self, end: type[ev.Event], depth: int) -> Iterator[Node]:
        for event in self.events:
            if isinstance(event, end):
                return
            assert isinstance(event, ev.NodeEvent)
            yield self._node(event, depth + 1)

    def _section(self, place: Place, depth: int) -> Section:
        items: list[tuple[Scalar, Node]] = []
        first: dict[str, Place] = {}
        nodes = self._inside(ev.MappingEndEvent, depth)
        for key in nodes:
            if not isinstance(key, Scalar):
                text = TEMPLATE_TEXT if self._template_on(key.place.line) else "a key must be one word"
                raise _RefusedError(key.place, text)
            value = next(nodes)
            if key.plain and key.text == "<<":
                raise _RefusedError(key.place, "<< is a merge key; write the values themselves")
            if key.text in first:
                earlier = first[key.text].line
                text = f"{key.text} stands here a second time; keep only this or line {earlier}"
                self.faults.append(Fault(key.place, text))
                continue
            first[key.text] = key.place
            items.append((key, value))
        return Section(tuple(items), place)
