"""Train a small character model with numpy, save whole checkpoints, and go on from the newest one.

Text: the Python library of the machine it runs on. Model: the last CONTEXT characters, embedded,
one hidden layer, a softmax over characters; Adam. SIGTERM saves a checkpoint and exits 143.
"""

import argparse
import json
import os
import signal
import sys
import sysconfig
import time
from pathlib import Path

import numpy as np

CONTEXT, EMBED, HIDDEN, BATCH, RATE = 16, 12, 192, 256, 2e-3
TEXT_CHARS = 2_000_000
KEEP = 2

Arrays = dict[str, np.ndarray]


def read_text() -> tuple[np.ndarray, str]:
    """The library's source as numbers of characters, and the alphabet; rare characters become spaces."""
    text = ""
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text += path.read_text(encoding="utf-8", errors="replace")
        if len(text) > TEXT_CHARS:
            break
    alphabet = "\n" + "".join(chr(code) for code in range(32, 127))
    number = {char: index for index, char in enumerate(alphabet)}
    return np.array([number.get(char, 1) for char in text], dtype=np.int64), alphabet


def fresh_model(letters: int) -> Arrays:
    """Weights from a fixed seed, and Adam's two memories of each."""
    chance = np.random.default_rng(0)
    shapes = {"embed": (letters, EMBED), "w1": (CONTEXT * EMBED, HIDDEN), "b1": (HIDDEN,),
              "w2": (HIDDEN, letters), "b2": (letters,)}  # fmt: skip
    model: Arrays = {}
    for name, shape in shapes.items():
        scale = 0.0 if len(shape) == 1 else 1.0 if name == "embed" else shape[0] ** -0.5
        model[name] = (chance.standard_normal(shape) * scale).astype(np.float32)
        model[f"m.{name}"], model[f"v.{name}"] = np.zeros_like(model[name]), np.zeros_like(model[name])
    return model


def forward(model: Arrays, context: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Embedded input, hidden layer and log-probabilities for rows of CONTEXT characters."""
    inputs = model["embed"][context].reshape(len(context), -1)
    hidden = np.tanh(inputs @ model["w1"] + model["b1"])
    logits = hidden @ model["w2"] + model["b2"]
    logits -= logits.max(axis=1, keepdims=True)
    return inputs, hidden, logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def train_step(model: Arrays, text: np.ndarray, step: int) -> float:
    """One batch, drawn from the step's own seed so that a resumed run sees the same data; its loss."""
    starts = np.random.default_rng(step).integers(0, len(text) - CONTEXT - 1, BATCH)
    context = text[starts[:, None] + np.arange(CONTEXT)]
    target = text[starts + CONTEXT]
    inputs, hidden, log_p = forward(model, context)
    rows = np.arange(BATCH)
    d_logits = np.exp(log_p)
    d_logits[rows, target] -= 1
    d_logits /= BATCH
    d_hidden = (d_logits @ model["w2"].T) * (1 - hidden**2)
    d_embed = np.zeros_like(model["embed"])
    np.add.at(d_embed, context, (d_hidden @ model["w1"].T).reshape(BATCH, CONTEXT, EMBED))
    slopes = {"embed": d_embed, "w1": inputs.T @ d_hidden, "b1": d_hidden.sum(0),
              "w2": hidden.T @ d_logits, "b2": d_logits.sum(0)}  # fmt: skip
    for name, slope in slopes.items():
        m, v = model[f"m.{name}"], model[f"v.{name}"]
        m += 0.1 * (slope - m)
        v += 0.001 * (slope**2 - v)
        model[name] -= RATE * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    return float(-log_p[rows, target].mean())


def save(folder: Path, model: Arrays, step: int, trained_s: float) -> None:
    """Aside, fsync, rename: a checkpoint is whole or not there. The older ones but KEEP are deleted."""
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f"step-{step:07d}.part"
    with aside.open("wb") as file:
        np.savez(file, step=np.array(step), trained_s=np.array(trained_s), **model)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(aside.with_suffix(".npz"))
    for old in sorted(folder.glob("step-*.npz"))[:-KEEP]:
        old.unlink()


def newest(folder: Path) -> tuple[Arrays, int, float] | None:
    """The newest checkpoint that can be read: model, step, seconds trained."""
    for path in sorted(folder.glob("step-*.npz"), reverse=True):
        try:
            with np.load(path) as file:
                model = {name: file[name] for name in file.files}
            return model, int(model.pop("step")), float(model.pop("trained_s"))
        except (OSError, ValueError, KeyError, EOFError) as error:
            print(f"{path.name} cannot be read ({error}); trying an older one", flush=True)
    return None


def sample(model: Arrays, text: np.ndarray, alphabet: str, length: int = 160) -> str:
    """What the model writes after the text's first characters."""
    chance = np.random.default_rng(1)
    letters = list(text[:CONTEXT])
    for _ in range(length):
        log_p = forward(model, np.array([letters[-CONTEXT:]]))[2][0]
        chances = np.exp(log_p.astype(np.float64) * 1.5)
        letters.append(chance.choice(len(alphabet), p=chances / chances.sum()))
    return "".join(alphabet[letter] for letter in letters[CONTEXT:])


def bar(part: float, step: int, loss: float) -> None:
    """One line that draws itself again."""
    done = min(int(part * 30), 30)
    print(f"\r[{'#' * done}{'.' * (30 - done)}] {min(part, 1):4.0%} step {step} loss {loss:.3f}", end="", flush=True)


def main() -> int:
    """Train until --seconds of training are over, counted over all attempts; exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of training in all")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two checkpoints")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for metrics and checkpoints")
    options = parser.parse_args()

    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    text, alphabet = read_text()
    found = newest(options.out / "checkpoints")
    model, step, trained_s = found or (fresh_model(len(alphabet)), 0, 0.0)
    print(f"resumed at step {step}" if found else f"fresh model, {len(text)} characters of text", flush=True)
    code = train(model, text, options, asked, (step, trained_s))
    if code == 0:
        print(sample(model, text, alphabet))
    return code


def train(
    model: Arrays, text: np.ndarray, options: argparse.Namespace, asked: list[int], so_far: tuple[int, float]
) -> int:
    """The loop; it ends between two steps when a signal is in `asked`. so_far: steps and seconds already trained."""
    step, trained_s = so_far
    began, saved_s, shown_s = time.perf_counter() - trained_s, trained_s, trained_s
    losses: list[float] = []
    while trained_s < options.seconds and not asked:
        step += 1
        losses.append(train_step(model, text, step))
        trained_s = time.perf_counter() - began
        if trained_s - saved_s >= options.every:
            save(options.out / "checkpoints", model, step, trained_s)
            saved_s = trained_s
        if trained_s - shown_s >= 0.2:
            bar(trained_s / options.seconds, step, losses[-1])
            shown_s = trained_s
        if step % 100 == 0:
            print(f"\rstep {step} loss {np.mean(losses[-100:]):.4f} after {trained_s:.1f}s" + " " * 24, flush=True)
    if asked:
        print("\nasked to stop: saving", flush=True)
    code = 128 + asked[0] if asked else 0
    save(options.out / "checkpoints", model, step, trained_s)
    metrics = {"loss": round(float(np.mean(losses[-200:])), 4) if losses else None, "step": step,
               "trained_seconds": round(trained_s, 1), "complete": code == 0}  # fmt: skip
    aside = options.out / "metrics.json.part"
    aside.write_text(json.dumps(metrics) + "\n", encoding="utf-8")
    aside.replace(options.out / "metrics.json")
    print(f"\n{json.dumps(metrics)}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
