"""The strict reader of YAML: text stays text, everything has a place, what surprises is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.strict_yaml import MOST_BYTES, MOST_NODES, Listing, Place, Scalar, Section, load


def faults(text: str | bytes) -> str:
    """The faults of a text, one a line."""
    return "\n".join(str(fault) for fault in load(text, "f")[1])


def test_places() -> None:
    """Keys and values know their line and column, counted from 1."""
    root, wrong = load("a: 1\nb:\n  - x\n", "f")
    assert isinstance(root, Section) and not wrong
    (key, value), (_, items) = root.items
    assert (str(key.place), str(value.place)) == ("f:1:1", "f:1:4")
    assert isinstance(items, Listing) and items.items[0].place == Place("f", 3, 5)


@pytest.mark.parametrize(
    "text", ["no", "off", "y", "010", "1:30", "1e-6", "1.0e3", "1_000", "2012-10-17", "3.10", "0x1F", "0123", ".inf"]
)
def test_text_stays_text(text: str) -> None:
    """No scalar is turned into a number, a date or a truth value."""
    root, _ = load(f"k: {text}", "f")
    assert isinstance(root, Section)
    value = root.get("k")
    assert isinstance(value, Scalar) and value.text == text


def test_nothing_and_empty_text() -> None:
    """Nothing written, the word null and an empty text are three things."""
    root, _ = load("a:\nb: null\nc: ''\n", "f")
    assert isinstance(root, Section)
    seen = [(value.missing, value.null) for _, value in root.items if isinstance(value, Scalar)]
    assert seen == [(True, True), (False, True), (False, False)]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("budget: 5\nbudget: 50\n", "f:2:1: budget stands here a second time; keep only this or line 1"),
        ("a: &x 1\nb: *x\n", "f:1:4: &x is an anchor"),
        ("a: *x\n", "f:1:4: *x is an alias"),
        ("a:\n  <<: {b: 1}\n", "f:2:3: << is a merge key"),
        ("a: !!python/object:os.system x\n", "f:1:4: the tag"),
        ("a: 1\n---\nb: 2\n", "f:2:1: a second document"),
        ("a:\n\tb: 1\n", "f:2:1: a tab cannot indent YAML; use spaces"),
        ("a: b: c\n", "f:1:5: a second `: `"),
        ("a:\n   b: 1\n  c: 2\n", "f:3:3: not YAML"),
        ("name: {{ x }}\n", "looks like a template"),
        ("{% if x %}\na: 1\n", "looks like a template"),
        ("a: [1\n", "not YAML"),
        ("? [a]\n: 1\n", "a key must be one word"),
        ("a: \x01\n", "f:1:4: the character U+0001"),
        ("[" * 1000, "nested deeper"),
        ("a: " + "x" * MOST_BYTES, "bytes long"),
        ("a: [" + "1," * MOST_NODES + "]", f"has at most {MOST_NODES}"),
        (b"a: 1\nb: \xff\xfe\n", "f:2:4: byte 0xff is not UTF-8"),
        ("a: 1".encode("utf-16"), "UTF-16"),
    ],
)
def test_refused(text: str | bytes, line: str) -> None:
    """What surprises is refused with its place and what would be right."""
    assert line in faults(text)


def test_alias_bombs_are_cheap() -> None:
    """Forty levels of aliases or merge keys are refused at the first one."""
    aliases = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    merges = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40))
    assert "f:1:5: &a0 is an anchor" in faults(aliases)
    assert "f:1:5: &a0 is an anchor" in faults(merges)


@pytest.mark.parametrize("text", [b"\xef\xbb\xbfa: 1\r\nb: |\r\n  x\r\n  y\r\n", "\ufeffa: 1\nb: |\n  x\n  y\n"])
def test_windows_files(text: str | bytes) -> None:
    """A byte order mark and CRLF change nothing."""
    root, wrong = load(text, "f")
    assert isinstance(root, Section) and not wrong
    block = root.get("b")
    assert isinstance(block, Scalar) and block.text == "x\ny\n"


@pytest.mark.parametrize("text", ["", "# only a remark\n", "---\n", "null\n"])
def test_empty(text: str) -> None:
    """An empty document is None without a fault."""
    assert load(text, "f") == (None, ())


@given(st.text(alphabet="ab:-[]{}#&*!|>'\"%@ \n\t\\?,\u2028", max_size=40))
def test_no_text_breaks_the_reader(text: str) -> None:
    """Any text is read or has a fault with a place; nothing is raised."""
    _, wrong = load(text, "f")
    assert all(fault.place.line >= 1 for fault in wrong)
