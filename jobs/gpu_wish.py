"""How `resources.gpu` is read: `24GB`, `24GB:2`, `RTX4090`, `A100-80GB:8`, a list of them, or a section."""

import re
from itertools import product

from jobs import fields, gpus
from jobs.fields import Faults
from jobs.spec import GpuWish
from jobs.strict_yaml import Fault, Listing, Node, Scalar, Section

MOST_GPUS = 64
_EXAMPLE = "24GB, RTX4090, A100-80GB:2 or a list of them"
_SIZE = re.compile(r"(\d{1,4}(?:\.\d{1,3})?)Gi?B", re.ASCII | re.IGNORECASE)


def read_gpu(node: Node, field: str, faults: Faults) -> tuple[GpuWish, ...] | None:
    """All wishes, any of which will do, in order; None after a fault."""
    if isinstance(node, Scalar):
        wish = _one(node, field, faults)
        return (wish,) if isinstance(wish, GpuWish) else None
    if isinstance(node, Section):
        return _from_section(node, field, faults)
    if not node.items:
        faults.append(
            Fault(node.place, f"{field} is empty; write {_EXAMPLE}, or leave it out where any machine will do")
        )
    wishes: list[GpuWish] = []
    for item in node.items:
        if isinstance(item, Listing):
            faults.append(Fault(item.place, f"{field} holds a list in a list; write one list"))
            continue
        wishes += read_gpu(item, field, faults) or ()
    return tuple(wishes) or None


def model_name(text: str) -> str:
    """The canonical name of a GPU or group of GPUs; ValueError names the nearest ones."""
    found = gpus.canonical(text)
    if found is None:
        close = gpus.nearest(text)
        raise ValueError(f"the GPU {text!r} is not known; " + (f"did you mean {' or '.join(close)}?" if close else
                         "write its memory instead, like 24GB"))  # fmt: skip
    return found


def vram(text: str) -> float:
    """GB of memory per GPU; GB and GiB are the same here, the size that a GPU is sold with."""
    match = _SIZE.fullmatch(text)
    if match is None or not 0 < float(match[1]) <= 1000 or text.startswith("0"):
        number = re.match(r"[1-9]\d{0,3}", text)
        raise ValueError(f"{text!r} is not a GPU's memory; write {number[0] if number else 24}GB")
    return float(match[1])


def compute_capability(text: str) -> float:
    """CUDA's compute capability, like 8.6."""
    if not re.fullmatch(r"\d{1,2}\.\d", text, re.ASCII):
        raise ValueError(f"{text!r} is not a compute capability; write one like 8.0")
    return float(text)


def cuda_version(text: str) -> str:
    """A version of CUDA, like 12.4."""
    if not re.fullmatch(r"\d{1,2}\.\d{1,2}", text, re.ASCII):
        raise ValueError(f"{text!r} is not a version of CUDA; write one like 12.4")
    return text


def _one(node: Scalar, field: str, faults: Faults) -> GpuWish | None:
    found = fields.parsed(_parse_one, _EXAMPLE)(node, field, faults)
    return found if isinstance(found, GpuWish) else None


def _parse_one(text: str) -> GpuWish:
    what, colon, count_text = text.partition(":")
    if re.fullmatch(r"\d+", text, re.ASCII):
        raise ValueError(f"{text!r} is neither a GPU nor its memory; write {text}GB for memory, or a name like RTX4090")
    if more := re.fullmatch(r"(\d+)\s*(?:GB)?\s*(?:\+|\.\.)|(\d+)GB\.\..*|(\d+)GB\+", what, re.IGNORECASE):
        number = more[1] or more[2] or more[3]
        raise ValueError(f"{text!r} is not read; write {number}GB, which means at least so much")
    if size := re.fullmatch(r"([^:]+):(\d+GB)(:\d+)?", text, re.ASCII | re.IGNORECASE):
        raise ValueError(f"{text!r} is not read; write {size[1]}-{size[2]}{size[3] or ''}")
    count = fields.whole(1, MOST_GPUS)(count_text) if colon else 1
    if what and what[0].isdigit():
        return GpuWish(vram_gb=vram(what), count=count)
    return GpuWish(model=model_name(what), count=count)


def _models(node: Node, field: str, faults: Faults) -> object:
    if isinstance(node, Scalar):
        name = fields.parsed(model_name, "RTX4090")(node, field, faults)
        return None if name is None else (name,)
    return fields.list_of(model_name, "RTX4090, A100")(node, field, faults)


_KEYS: dict[str, fields.Reader] = {
    "vram": fields.parsed(vram, "24GB"),
    "count": fields.parsed(fields.whole(1, MOST_GPUS), "2"),
    "models": _models,
    "min_compute_capability": fields.parsed(compute_capability, "8.0"),
    "cuda": fields.parsed(cuda_version, "12.4"),
}


def _from_section(node: Section, field: str, faults: Faults) -> tuple[GpuWish, ...] | None:
    if fields.section(node, field, faults, _EXAMPLE) is None:
        return None
    if all(isinstance(value, Scalar) and value.missing for _, value in node.items):
        better = ", ".join(key.text for key, _ in node.items)
        faults.append(Fault(node.place, f"{field} is a section of keys without values; write a list: [{better}]"))
        return None
    before = len(faults)
    values = fields.keys(node, field, faults, _KEYS)
    if len(faults) > before:
        return None
    models = values.pop("models", (None,))
    assert isinstance(models, tuple)
    rest = {"vram_gb" if key == "vram" else key: value for key, value in values.items()}
    return tuple(GpuWish.model_validate({"model": model, **each}) for model, each in product(models, [rest]))
