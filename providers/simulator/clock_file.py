"""The cloud's clock as a file that machines can read: one line `base_real_us base_cloud_us speed`.

Real time is CLOCK_REALTIME in whole microseconds; speed is a decimal number (0: the clock stands
still and only steps). cloud = base_cloud_us + (real - base_real_us) * speed, rounded down; a real
clock that stands before base_real_us reads base_cloud_us. In awk, with R the real microseconds:
`{ d = R - $1; if (d < 0) d = 0; printf "%d", $2 + d * $3 }`.
The line is replaced whole (rename), so a reader sees the old one or the new one and never half.
"""

import os
from fractions import Fraction
from pathlib import Path


def write(path: Path, base_real_us: int, base_cloud_us: int, speed: float) -> None:
    """Replace the file, durable before it returns: after a power cut the clock goes on where it was."""
    aside = path.with_name(path.name + ".new")
    with aside.open("w", encoding="ascii") as file:
        file.write(f"{base_real_us} {base_cloud_us} {speed!r}\n")
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def parts(path: Path) -> tuple[int, int, float]:
    """(base_real_us, base_cloud_us, speed). Raises OSError or ValueError where there is no such line."""
    base_real, base_cloud, speed = path.read_text(encoding="ascii").split()
    return int(base_real), int(base_cloud), float(speed)


def read(path: Path, real_us: int) -> int:
    """Cloud microseconds at the real time `real_us`. Raises OSError or ValueError where there is no such line."""
    return at(*parts(path), real_us)


def at(base_real_us: int, base_cloud_us: int, speed: float, real_us: int) -> int:
    """Cloud microseconds at `real_us` for a clock so set; exact, without floating point."""
    return base_cloud_us + int(max(real_us - base_real_us, 0) * Fraction(speed))
