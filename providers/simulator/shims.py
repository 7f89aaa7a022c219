"""Programs of a simulated machine that stand in for the real ones: power, disk, clock and GPU report.

Power, disk and clock are laid over the real files in the machine's mount namespace, so neither a full path nor
a login shell gets round them. nvidia-smi does not exist on this computer; it comes first in PATH.
"""

import os
import shlex
import shutil
from pathlib import Path

from providers.simulator.folder import Folder

_PLACES = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_POWER = ("shutdown", "poweroff", "reboot", "halt", "systemctl", "telinit")

_POWER_TEXT = r"""#!/bin/sh
# Ends this machine and nothing else: PID 1 writes down the time and takes all processes with it.
name=${0##*/}
if [ "$name" = systemctl ]; then
    case " $* " in
    *" poweroff "* | *" halt "* | *" reboot "* | *" kexec "*) ;;
    *) echo "systemctl: this machine has no systemd" >&2; exit 1 ;;
    esac
fi
if [ "$name" = telinit ]; then
    case "$1" in 0 | 6) ;; *) exit 0 ;; esac
fi
delay=0
for word in "$@"; do
    case $word in
    -c | --help | --version) exit 0 ;;
    now | +0) delay=0 ;;
    +[0-9]*) delay=$((${word#+} * 60)) ;;
    esac
done
[ "$delay" -eq 0 ] || { (trap '' HUP; sleep "$delay"; kill -s USR2 1) >/dev/null 2>&1 & exit 0; }
kill -s USR2 1
"""

_DF_TEXT = r"""#!/bin/sh
# The machine has one disk, of the size that was rented; what stands in its home fills it.
unit=1024 human= fields=
for word in "$@"; do
    case $word in
    --output=*) fields=${word#--output=} ;;
    --block-size=*) word=-B${word#--block-size=} ;;
    esac
    case $word in
    -BG* | -B1G*) unit=1073741824 ;;
    -BM* | -B1M*) unit=1048576 ;;
    -BK* | -B1K*) unit=1024 ;;
    -B1) unit=1 ;;
    --*) ;;
    -*h*) human=1 ;;
    -*m*) unit=1048576 ;;
    esac
done
size=@BYTES@
if [ -s @DISK@ ]; then read -r size <@DISK@; fi
used=$(du -sk @HOME@ 2>/dev/null | cut -f1)
exec awk -v size="$size" -v used="${used:-0}" -v unit=$unit -v human="$human" -v fields="$fields" '
function show(bytes) {
    if (human) return sprintf("%dG", (bytes + 1073741823) / 1073741824)
    return sprintf("%.0f", int(bytes / unit))
}
BEGIN {
    used *= 1024
    if (used > size) used = size
    free = size - used
    value["source"] = "overlay"; value["fstype"] = "overlay"; value["size"] = show(size)
    value["used"] = show(used); value["avail"] = show(free)
    value["pcent"] = sprintf("%d%%", size ? used * 100 / size : 100); value["target"] = "/"
    head["source"] = "Filesystem"; head["fstype"] = "Type"; head["size"] = human ? "Size" : "1024-blocks"
    head["used"] = "Used"; head["avail"] = "Available"; head["pcent"] = "Use%"; head["target"] = "Mounted on"
    count = split(fields == "" ? "source,size,used,avail,pcent,target" : fields, wanted, ",")
    for (i = 1; i <= count; i++) {
        top = top (i > 1 ? " " : "") head[wanted[i]]
        row = row (i > 1 ? " " : "") value[wanted[i]]
    }
    print top; print row
}'
"""

_GPU_TEXT = r"""#!/bin/sh
# What the rented cards say, or what a fault makes them say.
echo "$*" >>@CALLS@
if [ -f @REPORT@ ]; then
    said=$(cat @REPORT@)
    [ "$said" = hang ] || { printf '%s\n' "$said"; exit 0; }
else
    said=$(cat @LINES@)
fi
if [ "$said" = hang ]; then while :; do sleep 3600; done; fi
if [ -z "$said" ]; then
    echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    exit 9
fi
printf '%s\n' "$said" | exec awk -F', *' -v words="$*" '
BEGIN {
    if (match(words, /--query-gpu=[^ ]*/)) count = split(substr(words, RSTART + 12, RLENGTH - 12), wanted, ",")
    plain = words !~ /nounits/
    unit["memory.total"] = " MiB"; unit["memory.used"] = " MiB"; unit["utilization.gpu"] = " %"
    if (count && words !~ /noheader/) {
        for (i = 1; i <= count; i++) head = head (i > 1 ? ", " : "") wanted[i]
        print head
    }
}
{
    value["index"] = NR - 1; value["name"] = $1; value["memory.total"] = $2; value["compute_cap"] = $3
    value["driver_version"] = $4; value["memory.used"] = 1; value["utilization.gpu"] = 0; value["uuid"] = "GPU-" NR
    if (count) {
        row = ""
        for (i = 1; i <= count; i++) {
            one = wanted[i] in value ? value[wanted[i]] : "[N/A]"
            row = row (i > 1 ? ", " : "") one (plain ? unit[wanted[i]] : "")
        }
        print row
    } else if (words ~ /-L/) {
        printf "GPU %d: %s (UUID: GPU-%d)\n", NR - 1, $1, NR
    } else {
        if (NR == 1) printf "| NVIDIA-SMI %s    Driver Version: %s    CUDA Version: 12.8 |\n", $4, $4
        printf "| %3d  %-40s | %8d MiB |\n", NR - 1, $1, $2
    }
}'
"""

_CLOCK_TEXT = r"""
use strict; use warnings;
# A small system has no Time::HiRes: whole seconds then, and sleeps are rounded up.
my $fine = eval { require Time::HiRes; 1 };
sub clock {
    my $real = ($fine ? Time::HiRes::time() : time) * 1e6;
    open(my $file, '<', @CLOCK@) or return ($real, 1);
    my ($base_real, $base_cloud, $speed) = split ' ', <$file> // '';
    return ($real, 1) unless defined $speed;
    my $passed = $real - $base_real;
    return ($base_cloud + ($passed > 0 ? $passed : 0) * $speed, $speed);
}
"""

_SLEEP_TEXT = r"""#!/usr/bin/perl
# Sleeps in the cloud's seconds; the clock is looked at again and again, because it may be stepped.
@COMMON@
my %factor = (s => 1, m => 60, h => 3600, d => 86400);
my $wanted = 0;
for (@ARGV) {
    exit 0 if /^--(help|version)$/;
    if (/^(inf|infinity)[smhd]?$/i) { $wanted = 9e15; next }
    if (!/^((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)([smhd]?)$/i) {
        print STDERR "sleep: invalid time interval '$_'\n";
        exit 1;
    }
    $wanted += $1 * $factor{$2 || 's'};
}
if (!@ARGV) { print STDERR "sleep: missing operand\n"; exit 1 }
# A stepped clock is seen here before PID 1 has written the uptime: whoever sleeps and then reads the uptime
# would take the step for no time at all and sleep again, so the sleep ends when the uptime has come too.
sub up { open(my $file, '<', '/proc/uptime') or return 9e15; return (split ' ', <$file> // '9e15')[0] }
my $up = up() + $wanted - 0.02;
my ($now, $first_speed) = clock();
my $end = $now + $wanted * 1e6 + ($fine ? 0 : 1e6 * $first_speed);
while (1) {
    my ($at, $speed) = clock();
    last if $at >= $end && ($speed == 1 || up() >= $up);
    my $rest = $speed > 0 ? ($end - $at) / 1e6 / $speed : 0.02;
    $rest = 0.005 if $rest <= 0;
    my $most = $speed == 1 ? 0.2 : 0.02;
    select(undef, undef, undef, $rest < $most ? $rest + 0.0001 : $most);
}
"""

_DATE_TEXT = r"""#!/usr/bin/perl
# Tells the cloud's time where the present is asked for; everything else is the real program's.
@COMMON@
my ($now) = clock();
my $set = grep { /^(-[a-zA-Z]*[drsf]|--(date|reference|set|file))/ } @ARGV;
my @present = $set ? () : ('-d', sprintf('@%d.%06d', int($now / 1e6), $now - int($now / 1e6) * 1e6));
exec { @REAL@ } 'date', @present, @ARGV;
"""


def write_shims(folder: Folder, disk_gb: float, gpu_lines: tuple[str, ...], clock: Path) -> list[tuple[Path, Path]]:
    """Write all stand-ins below the folder; gives what must be laid over what: (real file, own file)."""
    folder.shims.mkdir(exist_ok=True)
    folder.path_first.mkdir(exist_ok=True)
    folder.gpu_lines.write_text("".join(line + "\n" for line in gpu_lines))
    quoted = {
        "@HOME@": shlex.quote(str(folder.home)),
        "@BYTES@": str(int(disk_gb * 1e9)),
        "@DISK@": shlex.quote(str(folder.disk)),
        "@CALLS@": shlex.quote(str(folder.gpu_calls)),
        "@REPORT@": shlex.quote(str(folder.gpu_report)),
        "@LINES@": shlex.quote(str(folder.gpu_lines)),
        "@COMMON@": _CLOCK_TEXT,
        "@CLOCK@": _perl_quoted(clock),
        "@REAL@": _perl_quoted(folder.real_date),
    }
    covers = []
    programs = [(_POWER, _POWER_TEXT), (("df",), _DF_TEXT), (("nvidia-smi",), _GPU_TEXT)]
    if Path("/usr/bin/perl").exists():  # without it sleep and date stay this computer's own
        programs += [(("sleep",), _SLEEP_TEXT), (("date",), _DATE_TEXT)]
    for names, text in programs:
        own = folder.shims / names[0]
        _write_program(own, text, quoted)
        covers += [(real, own) for real in real_files(names)]
        for name in names:  # also where this computer has no such program, or one file for all of them
            (folder.path_first / name).unlink(missing_ok=True)
            (folder.path_first / name).symlink_to(own)
    return covers


def real_files(names: tuple[str, ...]) -> list[Path]:
    """The files behind these program names on this computer, links followed, each once.

    A file of many programs (busybox) is left out: covering it would take the shell away, and its own power
    programs only signal PID 1, which here is the machine's.
    """
    found: list[Path] = []
    for name in names:
        for place in _PLACES:
            real = Path(os.path.realpath(f"{place}/{name}"))
            if real.is_file() and real not in found and real.name not in ("busybox", "coreutils", "systemd"):
                found.append(real)
    return found


def real_date() -> Path:
    """The computer's own date program, which the stand-in asks for the form."""
    return Path(os.path.realpath(shutil.which("date", path="/usr/bin:/bin") or "/bin/date"))


def _write_program(path: Path, text: str, quoted: dict[str, str]) -> None:
    for mark, value in quoted.items():
        text = text.replace(mark, value)
    aside = path.with_suffix(".new")
    aside.write_text(text)
    aside.chmod(0o755)
    # Renamed, never written in place: the old file may be laid over a real one in a machine that still dies.
    aside.replace(path)


def _perl_quoted(path: Path) -> str:
    return "'" + str(path).replace("\\", "\\\\").replace("'", "\\'") + "'"
