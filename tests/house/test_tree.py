"""The house: sizes, names, words and layers, checked so that nobody has to look."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import jobs

ROOT = Path(__file__).parents[2]
PACKAGES = ("jobs", "providers", "orchestrator")
LONGEST_FILE, LONGEST_FUNCTION = 400, 70
FORBIDDEN_NAMES = {"util", "utils", "helper", "helpers", "manager", "managers", "core", "common", "misc", "stuff"}

# Put together here so that this file does not hold them.
_UNFINISHED = ["TO" + "DO", "FIX" + "ME", "XX" + "X"]
_ELSEWHERE = ["/wo" + "rk/", "sub" + "agent", "language mo" + "del", "trouble.m" + "d", "sketch.m" + "d", "cli.m" + "d"]
_REGISTRIES = ["py" + "pi.org", "python" + "hosted"]
BANNED = [*_UNFINISHED, *_ELSEWHERE, *_REGISTRIES]
TEXT_ENDINGS = {".py", ".md", ".toml", ".yaml", ".yml", ".sh", ".txt", ".cfg", ""}


def sources(*folders: str) -> list[Path]:
    """All Python files below these folders; migrations and reproductions of bugs stay as they once were written."""
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in found if not {"bugs", "versions"} & set(path.relative_to(ROOT).parts))


def texts() -> Iterator[Path]:
    """Every text that is ours."""
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") and part not in (".ci", ".gitignore") for part in parts)
        if path.is_file() and not hidden and "__pycache__" not in parts and path.suffix in TEXT_ENDINGS:
            yield path


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function, however deep."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def named(path: Path, line: int = 1) -> str:
    """file:line, to click on."""
    return f"{path.relative_to(ROOT)}:{line}"


def test_files_are_short() -> None:
    """No file has more than 400 lines."""
    files = sources(*PACKAGES, "tests", "examples", "benchmarks")
    long = [(named(path), count) for path in files if (count := len(path.read_text().splitlines())) > LONGEST_FILE]
    assert long == []


def test_functions_fit_on_a_screen() -> None:
    """No function has more than 70 lines."""
    long = []
    for path in sources(*PACKAGES, "tests", "examples", "benchmarks"):
        for node in functions(ast.parse(path.read_text())):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LONGEST_FUNCTION:
                long.append((named(path, node.lineno), length))
    assert long == []


def test_public_names_say_what_they_are() -> None:
    """Every module, and every public class and function of it, has a docstring."""
    silent = []
    for path in sources(*PACKAGES):
        tree = ast.parse(path.read_text())
        nodes: list[ast.AST] = [tree, *tree.body]
        nodes += [inner for node in tree.body if isinstance(node, ast.ClassDef) for inner in node.body
                  if not node.name.startswith("_")]  # fmt: skip
        for node in nodes:
            public = isinstance(node, ast.Module) or not getattr(node, "name", "_").startswith("_")
            documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            if public and documented and not ast.get_docstring(node):  # type: ignore[arg-type]
                silent.append(named(path, getattr(node, "lineno", 1)))
    assert silent == []


def test_every_test_states_a_fact() -> None:
    """Every test function has a docstring."""
    silent = []
    for path in sources("tests"):
        for node in functions(ast.parse(path.read_text())):
            if node.name.startswith("test_") and not ast.get_docstring(node):
                silent.append(named(path, node.lineno))
    assert silent == []


def test_files_are_named_after_something() -> None:
    """No file or folder has a name under which anything could lie."""
    vague = [named(path) for path in sources(*PACKAGES, "tests") if FORBIDDEN_NAMES & {path.stem, *path.parts[-3:-1]}]
    assert vague == []


def test_test_folders_are_packages() -> None:
    """Every folder of tests has an __init__.py: without one, tests/jobs would be taken for the package jobs."""
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert [named(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_words_that_do_not_belong_here() -> None:
    """No unfinished work, no path of somebody's machine, no name of a package registry."""
    found = []
    for path in texts():
        if "bugs" in path.relative_to(ROOT).parts:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            found += [(named(path, number), word) for word in BANNED if word in line]
    assert found == []


def test_jobs_is_ours() -> None:
    """The package jobs that is imported lies in this repository, not in somebody else's distribution."""
    assert Path(jobs.__file__).parent == ROOT / "jobs"


def test_layers() -> None:
    """Imports go from orchestrator to providers to jobs and never back; the other contracts hold too."""
    tool = Path(sys.executable).with_name("lint-imports")
    ran = subprocess.run([tool], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_help_is_cheap(words: list[str]) -> None:
    """Help imports nothing heavy."""
    heavy = ["sqlalchemy", "celery", "paramiko", "httpx", "pydantic", "asyncssh", "cryptography"]
    program = (
        "import sys\nfrom orchestrator.cli.main import main\n"
        f"try: main({words!r})\nexcept SystemExit: pass\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stderr.strip() == "[]"
