"""GPU names and sizes: what a name covers, which names come near, and when an offer is what was wished.

A wide name covers all its variants: `A100` any A100, `A100-80GB` only those of 80 GB,
`A100-SXM` only those on SXM boards, `A100-SXM-80GB` one model. An offer that says less
than the wish (an `A100` of unknown board for a wish `A100-SXM`) is not taken for it.
"""

import re
from difflib import get_close_matches
from functools import cache, lru_cache

from jobs.gpu_table import TABLE, Gpu

# The one tolerance: a stated memory size counts as the nearest size that GPUs are sold with,
# if it is at most a tenth away. So 24564 MiB, 23.6 GiB and 24000 MB are all 24 GB.
TOLERANCE = 0.10

_SIZES = tuple(sorted({gpu.vram_gb for gpu in TABLE}))
_MAKER = re.compile(r"^(nvidia|amd|intel)?(geforce|tesla|instinct|radeon)?")


@lru_cache(maxsize=4096)
def models(name: str, vram_gb: float = 0) -> tuple[Gpu, ...]:
    """Every GPU that `name` covers, only those of that (stated) memory size if one is given; empty: unknown."""
    covered = _index().get(_normal(name), ())
    if vram_gb <= 0:
        return covered
    size = _near(vram_gb, tuple(gpu.vram_gb for gpu in covered))
    return tuple(gpu for gpu in covered if gpu.vram_gb == size)


def canonical(name: str) -> str | None:
    """The name that this project writes for `name` (a model or a group of models), or None if unknown."""
    covered = models(name)
    if len(covered) <= 1:
        return covered[0].name if covered else None
    return next((group for group in covered[0].groups if models(group) == covered), None)


def find(name: str, vram_gb: float = 0) -> Gpu | None:
    """One GPU for a name and, if given, its stated memory: of several the smallest, then slowest; None: unknown."""
    covered = models(name, vram_gb)
    return min(covered, key=lambda gpu: (gpu.vram_gb, gpu.tflops_16bit, gpu.bandwidth_gb_s), default=None)


def nearest(name: str, most: int = 3) -> list[str]:
    """Known names that look like `name`, the likeliest first; may be empty."""
    spellings = {normal: canonical(normal) or normal for normal in _index()}
    wanted = _normal(name)
    close = get_close_matches(wanted, spellings, n=4 * most, cutoff=0.6)
    if len(wanted) >= 2:
        close += [normal for normal in spellings if wanted in normal]
    return list(dict.fromkeys(spellings[normal] for normal in close))[:most]


@lru_cache(maxsize=4096)
def matches(wish_model: str, offer_gpu: str, offer_vram_gb: float) -> bool:
    """Whether an offer of `offer_gpu` with so much stated memory per GPU is surely what `wish_model` covers."""
    offered = models(offer_gpu, offer_vram_gb)
    return bool(offered) and set(offered) <= set(models(wish_model))


@lru_cache(maxsize=4096)
def nominal_gb(stated_gb: float, name: str = "") -> float:
    """The size that a GPU of `stated_gb` is sold with: one of the model's, else of any GPU's, else as stated."""
    own = tuple(gpu.vram_gb for gpu in models(name))
    return _near(stated_gb, own) or _near(stated_gb, _SIZES) or stated_gb


def _near(stated_gb: float, sizes: tuple[int, ...]) -> int | None:
    """The size nearest to what is stated, the smaller of two, if it is within TOLERANCE."""
    size = min(sizes, key=lambda size: (abs(size - stated_gb), size), default=0)
    return size if size and abs(size - stated_gb) <= TOLERANCE * size else None


def _normal(name: str) -> str:
    return _MAKER.sub("", re.sub(r"[^a-z0-9]", "", name.lower()))


@cache
def _index() -> dict[str, tuple[Gpu, ...]]:
    index: dict[str, tuple[Gpu, ...]] = {}
    for gpu in TABLE:
        names = (gpu.name, *gpu.groups, *gpu.aliases)
        spellings = {_normal(name) for name in (*names, *(f"{name}{gpu.vram_gb}GB" for name in names))}
        for normal in sorted(spellings):
            index[normal] = (*index.get(normal, ()), gpu)
    return index
