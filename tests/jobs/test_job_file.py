"""Reading a job file: a spec, or every fault with its place and what would be right."""

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import job_file
from jobs.errors import InvalidJob
from jobs.job_file import KEYS, RESOURCE_KEYS
from jobs.money import HOUR, MINUTE, SECOND
from jobs.spec import Estimate, GpuWish, JobSpec, Resources

PLACE = re.compile(r"job\.yaml:\d+:\d+: .+")


def read(text: str, **rest: object) -> JobSpec:
    """The spec of a text."""
    return job_file.read(text, **rest).spec  # type: ignore[arg-type]


def faults(text: str | bytes, **rest: object) -> str:
    """The text of InvalidJob, which must come; each line has its place and what would be right."""
    with pytest.raises(InvalidJob) as refused:
        job_file.read(text, **rest)  # type: ignore[arg-type]
    for line in str(refused.value).splitlines():
        assert PLACE.match(line) or line.startswith("--s"), line
        assert re.search(r"; |\?", line), line
    return str(refused.value)


def test_the_smallest_job() -> None:
    """`run` alone is a job."""
    found = job_file.read("run: python train.py\n")
    assert found.spec == JobSpec(run="python train.py")
    assert found.given == {"run"} and found.warnings == ()


def test_a_whole_job() -> None:
    """Every value arrives in the units of the spec."""
    spec = read("""
name: qlora
resources: {gpu: "24GB:2", cpus: 8, memory: 500MB, disk: 99.5GB, spot: auto, max_price: 0.8, trust: any, stop: hard}
python: 3.10
budget: 2.5
max_duration: 1h30m
grace: 90s
retries: 2
priority: -3
outputs: [./results/, a//b.txt]
secrets: [HF_TOKEN]
estimate: {hours: 1.5, on: rtx 4090}
run: |
  python train.py
""")
    assert spec == JobSpec(
        name="qlora",
        resources=Resources(
            gpu=(GpuWish(vram_gb=24, count=2),), cpus=8, memory_gb=0.5, disk_gb=100, spot="auto", max_price=800_000,
            trust="any", stop="hard",
        ),
        python="3.10", budget=2_500_000, max_duration=90 * MINUTE, grace=90 * SECOND, retries=2, priority=-3,
        outputs=("results", "a/b.txt"), secrets=("HF_TOKEN",), estimate=Estimate(hours=1.5, on="RTX4090"),
        run="python train.py\n",
    )  # fmt: skip


def test_all_faults_at_once_in_order() -> None:
    """One reading names every fault, by line."""
    text = faults("budget: 010\nresources:\n  gpu: RTX4091\n  disc: 3\nrnu: x\nmax_duration: 1:30\n")
    assert [line.split(": ")[0] for line in text.splitlines()] == [
        "job.yaml:1:1", "job.yaml:1:9", "job.yaml:3:8", "job.yaml:4:3", "job.yaml:5:1", "job.yaml:6:15",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "better"),
    [
        ("budget: 010", "job.yaml:1:9: budget: 010 begins with 0, which some take for octal; write 10"),
        ("budget: $5", "write 5, always US dollars"),
        ("budget: 1e3", "write one like 5 or 2.50"),
        ("budget: 1_000", "write one like 5 or 2.50"),
        ("budget: 0", "must be more than 0"),
        ("budget: -1", "write one like 5"),
        ("budget: 0.0000001", "up to six decimals"),
        ("budget:", "budget is empty; write 5 or 2.50"),
        ("resources: {disk: 0100}", "disk: 0100 begins with 0, which some take for octal; write 100"),
        ("resources: {cpus: 8+}", "write 8, which means at least so many"),
        ("resources: {memory: 16+}", "write 16GB, which means at least so much"),
        ("resources: {spot: yes}", "spot: 'yes' is not known; write true"),
        ("resources: {spot: True}", "write true"),
        ("resources: {trust: veryfied}", "did you mean verified?"),
        ("max_duration: 90", "write its unit: 90s, 90m or 90h"),
        ("max_duration: 1:30", "write 1h30m for hours and minutes"),
        ("max_duration: off", "leave the line out"),
        ("max_duration: 0s", "must be more than 0"),
        ("python: 3", "write one like 3.12"),
        ("retries: many", "write one from 0 to 100"),
        ("name: My Job!", "write my-job"),
        ("name: -x-", "write x"),
        ("name: '{{ name }}'", "looks like a template"),
        ("image: a b", "write one word"),
        ("workdir: https://github.com/x/y", "write a folder on this computer"),
        ("outputs: results", "write [results]"),
        ("outputs: [/tmp/x]", "is not a relative path"),
        ("outputs: [~/x]", "is not a relative path"),
        ("outputs: [a/../../x]", "leads out of the job's folder"),
        ("outputs: [.]", "the whole folder of the job"),
        ("outputs: ['*.pt']", "is a pattern"),
        ("outputs: [a, a/]", "names a twice; keep one"),
        ("secrets: [HF-TOKEN]", "write only names, like HF_TOKEN"),
        ("estimate: {hours: 3}", "estimate has no on"),
        ("estimate: {hours: 3, on: RTX4091}", "did you mean RTX4090"),
        ("gpu: 24GB", "did you mean resources.gpu?"),
        ("accelerators: A100", "did you mean resources.gpu?"),
        ("envs: {A: 1}", "did you mean env?"),
        ("commands: [ls]", "did you mean run?"),
        ("setup: [a, b]", "setup is a list; write text"),
    ],
)
def test_faults(line: str, better: str) -> None:
    """A wrong value is refused with what would be right."""
    assert better in faults(line + "\nrun: x\n")


@pytest.mark.parametrize("word", ["no", "off", "y", "on", "null-job"])
def test_words_of_yaml_are_names(word: str) -> None:
    """A name or region that YAML takes for a truth value is text."""
    spec = read(f"name: {word}\nresources: {{regions: [{word}]}}\nrun: x\nenv: {{V: {word}}}\n")
    assert (spec.name, spec.resources.regions, spec.env) == (word, (word,), {"V": word})


@pytest.mark.parametrize("key", [key for key in KEYS if len(key) > 2])
@pytest.mark.parametrize("how", ["dropped", "doubled", "changed", "swapped"])
def test_misspelt_keys(key: str, how: str) -> None:
    """Each key misspelt by one letter gets "did you mean"."""
    word = misspelt(key, how)
    known = "" if word == "run" or key == "run" else "run: x\n"
    assert re.search(rf"{word} is not known; did you mean {key}\?", faults(f"{word}: 1\n{known}"))


@pytest.mark.parametrize("key", [key for key in RESOURCE_KEYS if len(key) > 2])
@pytest.mark.parametrize("how", ["dropped", "doubled", "changed", "swapped"])
def test_misspelt_keys_of_resources(key: str, how: str) -> None:
    """Each key below `resources` misspelt by one letter gets "did you mean"."""
    word = misspelt(key, how)
    assert f"resources.{word} is not known; did you mean {key}?" in faults(f"resources: {{{word}: 1}}\nrun: x\n")


def misspelt(key: str, how: str) -> str:
    """`key` with one letter wrong."""
    if how == "dropped":
        return key[:-1]
    if how == "doubled":
        return key[0] + key
    if how == "changed":
        return key[0] + "x" + key[2:]
    return key[:-2] + key[-1] + key[-2]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", ["", "null", "{}", "[[]]", "{a: {b: c}}", "[{a: b}]"])
def test_every_section_wrong(key: str, value: str) -> None:
    """Nothing, a list for a map, and a map for a list give a clear line with the place of the key's value."""
    run = "" if key == "run" else "run: x\n"
    assert re.search(rf"job\.yaml:1:\d+: {key}", faults(f"{key}: {value}\n{run}"))


def test_a_section_of_remarks() -> None:
    """A section with only remarks in it is empty."""
    assert "job.yaml:1:11: resources is empty; write keys below it" in faults("resources:\n  # gpu: 24GB\nrun: x\n")


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_an_empty_file(text: str) -> None:
    """An empty file has no run."""
    assert faults(text) == "job.yaml:1:1: there is no run; write what the job does, like run: python train.py"


@pytest.mark.parametrize("text", ["- a\n", "train.py\n"])
def test_no_keys(text: str) -> None:
    """A list or a word is no job file."""
    assert "a job file is keys and values" in faults(text)


ENV = ["1.10", "1e-6", "no", "0123", "2012-10-17", "1_000", "1:30", "~", "null", "0x1F", "{{ x }}", "${HOME} $(x) `x`"]


@pytest.mark.parametrize("value", [value for value in ENV if "{{" not in value])
def test_env_values_as_written(value: str) -> None:
    """Values of env are kept byte for byte."""
    assert read(f"env:\n  V: {value}\nrun: x\n").env == {"V": value}


@given(st.text(max_size=40).filter(lambda text: not re.search("[\x00\ud800-\udfff]", text)))
def test_env_values_by_flag(value: str) -> None:
    """A value set by a flag is kept byte for byte, whatever it is."""
    assert read("run: x\n", overrides=[f"env.V={value}"]).env == {"V": value}


def test_env_without_a_value() -> None:
    """It comes from the shell, or is refused; an empty text is a value."""
    assert read("env: {A: , B: ''}\nrun: x\n", shell_env={"A": "1", "B": "2"}).env == {"A": "1", "B": ""}
    assert "job.yaml:1:7: env.A has no value; give it by --env A=" in faults("env: {A: }\nrun: x\n")
    assert read("env: {A: }\nrun: x\n", overrides=["env.A=5"]).env == {"A": "5"}


def test_env_that_no_machine_can_hold() -> None:
    """A zero byte or a broken character is refused and not shown."""
    for value in ("a\0b", "a\udcffb"):
        assert "env.A has bytes in it that are not UTF-8" in faults("env: {A: }\nrun: x\n", shell_env={"A": value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("WANDB_API_KEY", "x"),
        ("HF_TOKEN", "x"),
        ("DB_PASSWORD", "x"),
        ("X", "0123456789abcdef0123456789abcdef01234567"),
        ("X", "hf_abcdefghijklmnop"),
    ],
)
def test_secrets_in_env_are_warned_of(key: str, value: str) -> None:
    """What looks like a secret is named, and its value is not."""
    (warning,) = job_file.read(f"run: x\nenv:\n  {key}: {value}\n").warnings
    assert warning.startswith(f"job.yaml:3:3: env.{key} looks like a secret")
    assert f"write secrets: [{key}]" in warning
    assert value == "x" or value not in warning


@pytest.mark.parametrize("key", ["TOKENIZERS_PARALLELISM", "KEYBOARD", "MAX_TOKENS", "MONKEY"])
def test_harmless_names(key: str) -> None:
    """A name that only contains such a word is no secret."""
    assert job_file.read(f"run: x\nenv: {{{key}: 5}}\n").warnings == ()


def test_secrets() -> None:
    """Names of the file and of the flag come together; one in env as well is refused."""
    assert read("run: x\nsecrets: [A]\n", secrets=["B", "A"]).secrets == ("A", "B")
    assert "job.yaml:2:7: A is in env and in secrets" in faults("run: x\nenv: {A: 1}\n", secrets=["A"])
    assert "--secret: secrets: one of them is not the name" in faults("run: x\n", secrets=["a b"])


@pytest.mark.parametrize("value", ["HF_TOKEN=marker", "hf_marker0123456789", "sk-marker-0123456789"])
def test_a_secret_among_the_names_is_not_shown(value: str) -> None:
    """A value where a name belongs is refused without a word of it."""
    assert "marker" not in faults(f"run: x\nsecrets: [{value}]\n")
    assert "marker" not in faults("run: x\n", secrets=[value])


def test_overrides() -> None:
    """`--set` wins over the file, has the same checks, and does not count as given by the file."""
    flags = ["resources.gpu=[A100-80GB:2, 48GB]", "budget=7", "outputs=[a, b]"]
    found = job_file.read("run: x\nbudget: 5\nresources: {disk: 50}\n", overrides=flags)
    assert found.spec.resources == Resources(gpu=(GpuWish(model="A100-80GB", count=2), GpuWish(vram_gb=48)), disk_gb=50)
    assert (found.spec.budget, found.spec.outputs) == (7_000_000, ("a", "b"))
    assert found.given == {"run", "budget", "resources"}


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        ("resources.gpu=24", "--set resources.gpu: resources.gpu: '24' is neither a GPU nor its memory"),
        ("resources.gqu=24GB", "--set resources.gqu: resources.gqu is not known; did you mean gpu?"),
        ("budgte=5", "--set budgte: budgte is not known; did you mean budget?"),
        ("budget", "--set budget: 'budget' is not path=value"),
        ("run.x=5", "--set run.x: run has no keys in it"),
        ("outputs=[a", "--set outputs: not YAML"),
        ("budget=", "--set budget: budget: '' is not an amount"),
    ],
)
def test_faults_of_overrides(flag: str, line: str) -> None:
    """A fault of a flag is placed at the flag."""
    assert line in faults("run: x\n", overrides=[flag])


@pytest.mark.parametrize(
    "line",
    [
        "inputs: [hf://a/b]",
        "inputs: {data: 's3://a'}",
        "checkpoint: {path: ckpt, every: 10s, keep: 2}",
        "deadline: 2030-01-31T18:00Z",
        "keep: 30m",
        "stall: 30m",
        "ports: [8080, 22]",
        "notify: [me@example.org]",
    ],
)
def test_keys_of_later_versions(line: str) -> None:
    """What a later version will do is refused as "not yet", never silently left out."""
    assert "is not yet supported by this version; leave it out" in faults(line + "\nrun: x\n")


@pytest.mark.parametrize(
    ("line", "better"),
    [
        ("checkpoint: {every: 10s}", "checkpoint has no path"),
        ("checkpoint: {path: c, evry: 10s}", "did you mean every?"),
        ("checkpoint: ckpt", "is one value and not a section of keys"),
        ("ports: ['22:22']", "write 22"),
        ("ports: [22:22]", "write 22"),
        ("ports: [70000]", "from 1 to 65535"),
        ("deadline: tomorrow", "write one like 2030-01-31T18:00Z"),
        ("keep: 30", "30s, 30m or 30h"),
    ],
)
def test_form_of_keys_of_later_versions(line: str, better: str) -> None:
    """Their form is checked all the same."""
    text = faults(line + "\nrun: x\n")
    assert better in text and "not yet" not in text


def test_windows_file_with_a_mark() -> None:
    """CRLF and a byte order mark reach the job as plain lines."""
    found = job_file.read(b"\xef\xbb\xbfrun: |\r\n  a\r\n  b\r\n")
    assert found.spec.run == "a\nb\n"


def test_many_faults_are_cut() -> None:
    """At most fifty lines are shown, then how many more there are."""
    with pytest.raises(InvalidJob) as refused:
        job_file.read("".join(f"k{n}: 1\n" for n in range(100)))
    assert str(refused.value).splitlines()[-1] == "and 51 more"


def test_exit_code() -> None:
    """A wrong job file is wrong usage."""
    assert InvalidJob.exit_code == 2


_LINES = st.sampled_from(
    [
        *(f"{key}: " for key in KEYS),
        "  gpu: ",
        "  - ",
        "24GB",
        "{a: 1}",
        "[x, y]",
        "|",
        "\n",
        "  x",
        "'",
        '"',
        "{{ x }}",
    ]
)


@given(st.lists(_LINES, max_size=12).map("".join))
def test_no_text_breaks_the_reader(text: str) -> None:
    """Any text is a job or InvalidJob, and a job survives JSON."""
    try:
        spec = job_file.read(text).spec
    except InvalidJob:
        return
    assert JobSpec.model_validate_json(spec.model_dump_json()) == spec


def test_light_words_stay_light() -> None:
    """Money, units, states and errors load neither pydantic nor yaml."""
    code = "import sys, jobs.money, jobs.units, jobs.states, jobs.errors, jobs.secret, jobs.gpus;"
    code += "print([name for name in ('pydantic', 'yaml') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_time_is_in_microseconds() -> None:
    """All durations of a job are whole microseconds."""
    spec = read("run: x\nmax_wait: 2d\nboot_limit: 1.5h\n")
    assert (spec.max_wait, spec.boot_limit) == (48 * HOUR, 90 * MINUTE)
