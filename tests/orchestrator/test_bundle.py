"""The bundle: git's rules, odd names, links, modes, limits."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from jobs.errors import Usage
from orchestrator.bundle import pack, plan, write
from orchestrator.settings import Settings

LIMIT = 500_000_000
TREE = [
    "a.py", "a.log", "keep.log", "b/a.log", "b/keep.log", "dataset/x", "dataset/sub/y", "foo/bar/dataset/x",
    "build/out", "src/build/out", "src/build.py", "docs/a.md", "docs/deep/a.md", "docs/deep/b.txt", "#note", "!bang",
    "sp ace", "trail ", "x1", "x2", "xa", "logs/keep/a", "logs/drop/a", "n/.cache/z", "star*", "q?", "UP.TXT",
    "keep/a.log", "deep/a/b/c/t", "deep/t", "foo/t", "foo/a/t",
]  # fmt: skip
PATTERNS = [
    "*.log", "*.log\n!keep.log", "dataset/*", "/dataset/*", "dataset/", "dataset", "/build", "build/", "build",
    "docs/*.md", "docs/**/*.md", "**/deep", "deep/**", "deep/**/t", "\\#note", "\\!bang", "sp\\ ace", "trail\\ ",
    "x[0-9]", "x[!0-9]", "logs/*\n!logs/keep", "logs/\n!logs/keep", "star\\*", "q\\?", "*", "*\n!*/\n!*.py",
    "# comment\n\n*.md", "foo/*\n!foo/bar", "foo/**\n!foo/bar/", "/*\n!/src", "*.log\n!keep", "up.txt", "a.py ",
    "**/t", "foo/**/t", "?1", "./a.py", "/", "b/*.log\n!b/keep.log", "!a.py", "deep/a/", "foo/\\*",
]  # fmt: skip


def make(folder: Path, names: list[str]) -> Path:
    """Files that hold their own names."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.fsencode(name))
    return folder


def packed_files(folder: Path) -> set[str]:
    """The files and links that the bundle would hold."""
    planned = plan(folder, LIMIT, folder / "none")
    return {name for name in planned.files if not (folder / name).is_dir() or (folder / name).is_symlink()}


def git_keeps(root: Path, folder: Path) -> set[str]:
    """The files that git would add."""
    names = [str(path.relative_to(root)) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    names = [name for name in names if ".git" not in Path(name).parts]
    asked = subprocess.run(
        ["git", "-C", str(root), "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "-z", "--stdin"],
        input="\0".join(names), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert asked.returncode in (0, 1), asked.stderr
    kept = set(names) - set(asked.stdout.split("\0"))
    return {str((root / name).relative_to(folder)) for name in kept}


@pytest.mark.parametrize("patterns", PATTERNS)
def test_the_same_answer_as_git(tmp_path, patterns):
    """What is packed is what git would not ignore, for each kind of pattern."""
    make(tmp_path, TREE)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text(patterns + "\n")
    assert packed_files(tmp_path) == git_keeps(tmp_path, tmp_path)


def test_nested_files_and_those_above(tmp_path):
    """Ignore files deeper down, above the workdir, and the repository's own exclude file count as in git."""
    make(tmp_path, [f"sub/{name}" for name in TREE])
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("*.log\n/sub/x1\n/x2\nsub/foo/t\ndocs/\n")
    (tmp_path / ".git/info/exclude").write_text("xa\n")
    (tmp_path / "sub/.gitignore").write_text("!a.log\n/a.py\n")
    (tmp_path / "sub/b/.gitignore").write_text("!keep.log\n/a.log\n")
    assert packed_files(tmp_path / "sub") == git_keeps(tmp_path, tmp_path / "sub")


def test_what_is_left_out_is_named(tmp_path):
    """Each left-out part is named once, with the reason; an ignored folder stands for all below it."""
    make(tmp_path, [".git/config", "data/1", "data/2", "run.py", "gpupoor-out/job/x", "big.bin"])
    (tmp_path / ".gitignore").write_text("data\n")
    (tmp_path / ".gpupoorignore").write_text("*.bin\n")
    planned = plan(tmp_path, LIMIT, tmp_path / "none")
    assert [str(one) for one in planned.left_out] == [
        ".git/ (history)",
        "big.bin (ignored by .gpupoorignore)",
        "data/ (ignored by .gitignore)",
        "gpupoor-out/ (results of earlier jobs)",
    ]
    assert planned.files == (".gitignore", ".gpupoorignore", "run.py")


def test_ignored_paths_can_be_forced_in(tmp_path):
    """A path in .gpupoorinclude comes along with all below it, its ignored neighbours do not."""
    make(tmp_path, ["data/small/a.log", "data/big/b", "weights/w", "run.py"])
    (tmp_path / ".gitignore").write_text("data\n*.log\nweights\n")
    (tmp_path / ".gpupoorinclude").write_text("# needed\n\ndata/small\nweights/\n")
    names = packed_files(tmp_path)
    assert names == {".gitignore", ".gpupoorinclude", "data/small/a.log", "weights/w", "run.py"}


def test_a_forced_path_that_is_not_there_is_said(tmp_path):
    """A typing error in .gpupoorinclude costs no machine."""
    (tmp_path / ".gpupoorinclude").write_text("datta\n")
    with pytest.raises(Usage, match=r"\.gpupoorinclude:1: there is no datta"):
        plan(tmp_path, LIMIT, tmp_path / "none")


def test_odd_names_modes_and_times_arrive(tmp_path):
    """Names with spaces, quotes, newlines, emoji, 255 bytes, no text at all; modes and times: the same tree."""
    folder = tmp_path / "my résumé 'v1' $HOME"
    names = [" leading", "-rf", "a\nb", "🎉", "n" * 255, "sub/" + "m" * 255, os.fsdecode(b"latin-\xe9"), "trail "]
    make(folder, names)
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    os.utime(folder / "run.sh", (1_000_000_000, 1_000_000_000))
    (folder / "empty").mkdir()
    target = unpack(folder, tmp_path / "there")
    assert {path.name for path in target.iterdir()} == {path.name for path in folder.iterdir()}
    assert (target / names[5]).read_text() == names[5]
    assert (target / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (target / "run.sh").stat().st_mtime == 1_000_000_000
    assert (target / "empty").is_dir()


def unpack(folder: Path, target: Path) -> Path:
    """By the tar of this system, as a machine would."""
    stream = io.BytesIO()
    write(plan(folder, LIMIT, folder / "none"), stream)
    target.mkdir()
    subprocess.run(["tar", "-xf", "-", "-C", str(target)], input=stream.getvalue(), check=True)
    return target


def test_links_stay_links_and_none_leads_out(tmp_path):
    """Links to files, folders and nothing stay links; loops are not followed; what leads out is left out."""
    folder = make(tmp_path / "work", ["real/file"])
    (tmp_path / "secret").write_text("secret")
    for name, target in {
        "to-file": "real/file", "to-folder": "real", "broken": "nowhere", "loop": ".", "real/up": "../real",
        "out": "../secret", "absolute": str(tmp_path / "secret"), "real/far": "../../secret",
        "sly": "real/../../secret",
    }.items():  # fmt: skip
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe")
    planned = plan(folder, LIMIT, folder / "none")
    reasons = {one.name: one.reason for one in planned.left_out}
    assert reasons == {
        **dict.fromkeys(("out", "absolute", "real/far", "sly"), "a link out of the workdir"),
        "pipe": "neither file nor link",
    }
    target = unpack(folder, tmp_path / "there")
    assert (target / "to-file").read_text() == "real/file"
    assert [str((target / name).readlink()) for name in ("broken", "loop")] == ["nowhere", "."]


def test_the_same_content_has_the_same_name(tmp_path):
    """A file that comes and goes, or an ignored one, leaves the hash as it was; a changed file changes it."""
    folder = make(tmp_path / "work", ["a", "b/c", ".gitignore"])
    (folder / ".gitignore").write_text("*.pyc\n")

    def sha() -> str:
        return write(plan(folder, LIMIT, tmp_path / "none"), io.BytesIO()).sha

    first = sha()
    (folder / "b/x.pyc").write_text("x")
    assert sha() == first
    (folder / "b/c").write_text("other")
    assert sha() != first


@pytest.mark.parametrize("where", ["/", "home", "above home"])
def test_whole_computers_are_refused(tmp_path, monkeypatch, where):
    """The root, a home folder and what lies above it are no workdir."""
    home = tmp_path / "homes" / "me"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    with pytest.raises(Usage, match="whole computer"):
        plan({"/": Path("/"), "home": home, "above home": home.parent}[where], LIMIT, tmp_path / "none")


def test_over_the_limit_the_biggest_folders_are_named(tmp_path):
    """Before anything is rented, a bundle over the limit is refused with what makes it big."""
    make(tmp_path, ["small/a", "run.py"])
    (tmp_path / "data").mkdir()
    (tmp_path / "data/big").write_bytes(bytes(20_000))
    with pytest.raises(Usage, match=r"the biggest: data/ .*\.gpupoorignore"):
        plan(tmp_path, 10_000, tmp_path / "none")


def test_gpupoors_own_folder_never_leaves(tmp_path):
    """Keys and database are not packed, even when they lie in the workdir and are forced in."""
    make(tmp_path, ["state/credentials", "run.py"])
    (tmp_path / ".gpupoorinclude").write_text("state\n")
    planned = plan(tmp_path, LIMIT, tmp_path / "state")
    assert planned.files == (".gpupoorinclude", "run.py")


def test_files_that_vanish_shrink_or_grow(tmp_path):
    """A vanished file is named, a grown one is cut at its size of the moment."""
    make(tmp_path, ["a", "b", "c"])
    planned = plan(tmp_path, LIMIT, tmp_path / "none")
    (tmp_path / "a").unlink()
    (tmp_path / "b").write_bytes(bytes(100_000))
    stream = io.BytesIO()
    written = write(planned, stream)
    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        assert {member.name: member.size for member in archive} == {"b": 100_000, "c": 1}
    assert written.vanished == ("a",)


def test_pack_gives_the_bytes_again_and_again(tmp_path):
    """A packed bundle can be read more than once, and its length and name fit."""
    folder = make(tmp_path / "work", ["a"])
    bundle, left_out = pack(folder, Settings(home=tmp_path / "none"))
    for _ in range(2):
        with bundle.open() as source:
            assert len(source.read()) == bundle.bytes
    assert left_out == []


def test_fifty_thousand_small_files_are_one_stream(tmp_path):
    """50,000 small files become one stream."""
    for folder in range(50):
        place = tmp_path / f"d{folder}"
        place.mkdir()
        for number in range(1000):
            (place / f"{number}.txt").touch()
    (tmp_path / ".gitignore").write_text("\n".join(f"*.x{n}" for n in range(40)))
    planned = plan(tmp_path, LIMIT, tmp_path / "none")
    written = write(planned, io.BytesIO())
    assert planned.count == 50_001
    assert written.bytes < 30_000_000
