"""The page docs/job-yaml.md says what the code does."""

from docs.make import PAGE, REPOSITORY, page
from jobs import job_file
from jobs.job_file import KEYS, RESOURCE_KEYS
from orchestrator.settings import NAMES

EXAMPLE = (REPOSITORY / "jobs" / "example.yaml").read_text()


def test_the_page_is_up_to_date() -> None:
    """`python -m docs.make` would write what stands there."""
    assert PAGE.read_text() == page()


def test_the_example_is_a_job_file() -> None:
    """The example is read without a fault or a warning, and names every key."""
    found = job_file.read(EXAMPLE, "example.yaml")
    assert found.warnings == ()
    assert found.given == set(KEYS)


def test_every_key_and_setting_has_a_line() -> None:
    """Each key of the job file and each setting stands in the tables of defaults."""
    for key in (*KEYS, *(f"resources.{key}" for key in RESOURCE_KEYS)):
        assert key == "resources" or f"\n| `{key}` | " in page(), key
        assert f"\n### {key}\n" in page(), key
    for name in NAMES:
        assert f"| `GPUPOOR_{name.upper()}` |" in page(), name
