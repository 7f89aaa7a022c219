"""Settings from config.toml and the environment."""

import stat
from dataclasses import fields
from pathlib import Path

import pytest

from jobs.errors import Usage
from jobs.money import HOUR, MINUTE, SECOND
from orchestrator import settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of an installation, with a space in its name."""
    path = tmp_path / "my home"
    path.mkdir()
    return path


def load(home: Path, **variables: str) -> settings.Settings:
    """The settings of this home."""
    return settings.load({"GPUPOOR_HOME": str(home), **variables})


def test_every_setting_can_be_read() -> None:
    """Each field but the home and the origins has a name in config.toml."""
    assert set(settings.NAMES) == {f.name for f in fields(settings.Settings)} - {"home", "origins"}


def test_defaults_live_in_the_home(tmp_path: Path) -> None:
    """With nothing said, home is ~/.gpupoor, and database and blobs lie in it."""
    found = settings.load({"HOME": str(tmp_path)})
    assert found.home == tmp_path / ".gpupoor"
    assert found.database_url == f"sqlite:///{tmp_path}/.gpupoor/gpupoor.db"
    assert found.blobs_url == f"{tmp_path}/.gpupoor/blobs"
    assert (found.max_gpus, found.default_budget, found.zone) == (1, None, "UTC")
    assert set(found.origins.values()) == {"default"}


def test_a_home_in_the_users_home(tmp_path: Path) -> None:
    """A tilde in GPUPOOR_HOME is the home of the user."""
    assert settings.find_home({"HOME": str(tmp_path), "GPUPOOR_HOME": "~/gp"}) == tmp_path / "gp"


def test_units_of_the_file(home: Path) -> None:
    """Durations, sizes and money are written in the words of job files."""
    (home / "config.toml").write_text(
        'boot_limit = "90s"\nmax_wait = "2d"\nlog_cap = "5MB"\ndefault_budget = "5.00"\nmax_per_hour = 2.5\n'
        'max_gpus = 4\ncurrency = "eur"\nzone = "Europe/Berlin"\n'
    )
    found = load(home)
    assert (found.boot_limit, found.max_wait, found.log_cap) == (90 * SECOND, 48 * HOUR, 5_000_000)
    assert (found.default_budget, found.max_per_hour, found.max_gpus) == (5_000_000, 2_500_000, 4)
    assert (found.currency, found.zone) == ("EUR", "Europe/Berlin")


def test_an_amount_is_never_rounded(home: Path) -> None:
    """An amount written as a number keeps its six decimals."""
    (home / "config.toml").write_text("default_budget = 123456.100001\n")
    assert load(home).default_budget == 123_456_100_001


def test_the_environment_wins(home: Path) -> None:
    """A variable beats the file, the file beats the default, and each value knows where it came from."""
    (home / "config.toml").write_text('grace = "1m"\nhold = "1h"\n')
    found = load(home, GPUPOOR_GRACE="5m")
    assert (found.grace, found.hold, found.lease) == (5 * MINUTE, HOUR, MINUTE)
    assert [found.origins[name] for name in ("grace", "hold", "lease", "home")] == [
        "environment",
        "setting",
        "default",
        "environment",
    ]


@pytest.mark.parametrize(
    ("name", "text", "right"),
    [
        ("GRACE", "soon", "90s"),
        ("GRACE", "0s", "90s"),
        ("LOG_CAP", "much", "MB"),
        ("DEFAULT_BUDGET", "five", "2.50"),
        ("DEFAULT_BUDGET", "-1", "5.00"),
        ("MAX_GPUS", "1.5", "4"),
        ("ZONE", "Berlin", "Europe/Berlin"),
        ("ZONE", "../etc/passwd", "UTC"),
        ("MOCK_URL", "localhost:8899", "http://"),
        ("CLOUD_SSHD", "dropbear", "openssh"),
        ("CURRENCY", "dollars", "USD"),
    ],
)
def test_a_wrong_variable_is_named(home: Path, name: str, text: str, right: str) -> None:
    """The error names the variable, shows the value and says what would be right."""
    with pytest.raises(Usage) as caught:
        load(home, **{f"GPUPOOR_{name}": text})
    assert f"GPUPOOR_{name}" in str(caught.value) and repr(text) in str(caught.value) and right in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("max_gpu = 2", "did you mean max_gpus?"),
        ("grace = true", "neither text nor a number"),
        ('grace "1m"', "looks like"),
        ('home = "/x"', "GPUPOOR_HOME"),
        ("[money]\ndefault_budget = 1", "no such setting"),
        ('Grace = "1m"', "grace"),
        ("max_gpus = [1]", "neither text nor a number"),
        ('grace = "1 fortnight"', "90s"),
    ],
)
def test_a_wrong_line_is_named(home: Path, line: str, right: str) -> None:
    """The error names the file and says what would be right."""
    (home / "config.toml").write_text(line + "\n")
    with pytest.raises(Usage) as caught:
        load(home)
    assert str(home / "config.toml") in str(caught.value) and right in str(caught.value)


def test_a_file_that_is_no_text_is_named(home: Path) -> None:
    """Bytes that are no text are a plain error."""
    (home / "config.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Usage, match="text file"):
        load(home)


def test_setting_a_value_keeps_all_other_lines(home: Path) -> None:
    """Only the line of the setting changes; comments and order stay, and others may not read the file."""
    (home / "config.toml").write_text('# mine\ngrace = "1m"  # short\n\nhold="1h"\n')
    settings.set_value(home, "grace", "3m")
    settings.set_value(home, "max-gpus", "4")
    settings.set_value(home, "GPUPOOR_ZONE", "Asia/Tokyo")
    assert (home / "config.toml").read_text() == (
        '# mine\ngrace = "3m"\n\nhold="1h"\nmax_gpus = "4"\nzone = "Asia/Tokyo"\n'
    )
    assert stat.S_IMODE((home / "config.toml").stat().st_mode) == 0o600
    assert load(home).max_gpus == 4
    assert [path.name for path in home.iterdir()] == ["config.toml"]


def test_setting_a_value_makes_the_home(tmp_path: Path) -> None:
    """The first setting makes the home, for its owner alone."""
    settings.set_value(tmp_path / "new", "store", 'a "quoted" \\ path')
    assert load(tmp_path / "new").store == 'a "quoted" \\ path'
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_a_wrong_value_is_not_written(home: Path) -> None:
    """A value that cannot be read back leaves the file as it was."""
    (home / "config.toml").write_text('grace = "1m"\n')
    for name, text in (("grace", "soon"), ("gracee", "1m"), ("home", "/x")):
        with pytest.raises(Usage):
            settings.set_value(home, name, text)
    assert (home / "config.toml").read_text() == 'grace = "1m"\n'


def test_a_file_written_in_an_odd_way_is_left_alone(home: Path) -> None:
    """Where the line cannot be changed safely, the user is told to do it."""
    text = 'store = """\ngrace = "1m"\n"""\n'
    (home / "config.toml").write_text(text)
    with pytest.raises(Usage):
        settings.set_value(home, "grace", "2m")
    assert (home / "config.toml").read_text() == text


def test_a_linked_file_stays_linked(home: Path, tmp_path: Path) -> None:
    """config.toml may be a link into a folder of dot files."""
    real = tmp_path / "dotfile.toml"
    real.write_text('grace = "1m"\n')
    (home / "config.toml").symlink_to(real)
    settings.set_value(home, "grace", "2m")
    assert (home / "config.toml").is_symlink() and load(home).grace == 2 * MINUTE


def test_a_mistyped_variable_is_found() -> None:
    """A variable one letter off is reported, other programs' variables are not."""
    assert settings.unknown_variables({"GPUPOOR_MAX_GPU": "2", "GPUPOOR_GRACE": "1m", "GPUPOOR_GCP_ENDPOINT": "x"}) == [
        "GPUPOOR_MAX_GPU: did you mean GPUPOOR_MAX_GPUS?"
    ]


def test_secrets_are_not_shown(home: Path) -> None:
    """Neither repr nor `show` tells a secret key or the password in an address."""
    found = load(home, GPUPOOR_SECRET_KEY="hush", GPUPOOR_DATABASE_URL="postgresql://a:hush@db/x")
    assert "hush" not in repr(found)
    assert settings.show(found, "secret_key") == settings.show(found, "database_url") == "(set)"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("grace", "2m"),
        ("max_wait", "24h"),
        ("log_cap", "100MB"),
        ("default_budget", "none"),
        ("max_gpus", "1"),
        ("zone", "UTC"),
        ("secret_key", ""),
    ],
)
def test_values_are_shown_as_they_are_written(home: Path, name: str, text: str) -> None:
    """`show` uses the words that config.toml takes."""
    assert settings.show(load(home), name) == text
