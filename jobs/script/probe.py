"""What the machine really is: GPUs, disk, memory, CPUs, Python, tar."""

from jobs.command import Command
from jobs.script.prelude import text

# Driver branch -> the newest CUDA that it can run. One call of nvidia-smi per probe, and its table has no CUDA.
_CUDA_OF_DRIVER = (
    (580, "13.0"),
    (575, "12.9"),
    (570, "12.8"),
    (565, "12.7"),
    (560, "12.6"),
    (555, "12.5"),
    (550, "12.4"),
    (545, "12.3"),
    (535, "12.2"),
    (530, "12.1"),
    (525, "12.0"),
    (520, "11.8"),
    (515, "11.7"),
    (510, "11.6"),
    (495, "11.5"),
    (470, "11.4"),
    (465, "11.3"),
    (460, "11.2"),
    (455, "11.1"),
    (450, "11.0"),
)

_PROBE = r"""
mkdir -p -m 700 "$G" || exit 1
report="$G/probe.$$"; error= driver= i=0
bad() { [ -n "$error" ] || error=$1; }
if command -v nvidia-smi >/dev/null 2>&1; then
  # Its code goes to a file and not through `wait`: one that hangs in the driver cannot even be killed
  alone sh -c 'nvidia-smi --query-gpu=name,memory.total,compute_cap,driver_version \
    --format=csv,noheader,nounits >"$1" 2>&1; echo $? >"$1.code"' gpupoor-probe "$report" </dev/null >/dev/null 2>&1 &
  pid=$! tries=0
  up; until_s=$((now + limit))
  while [ ! -s "$report.code" ] && [ "$now" -le "$until_s" ]; do nap 0.1; up; done
  first_line "$report.code"
  if [ -z "$line" ]; then
    kill -s KILL -- "-$pid" 2>/dev/null
    bad "nvidia-smi: no answer in $limit s"
  else
    code=$line
    while IFS= read -r line || [ -n "$line" ]; do
      case $line in
        '') ;;
        *[Ee]rror* | *ERR!* | *'[N/A]'* | *'[Not Supported]'*) bad "$line" ;;
        *,*,*,*) printf '%s\n' "gpu.$i=$line"; i=$((i + 1)); driver=${line##*, } ;;
        *) bad "$line" ;;
      esac
    done <"$report"
    [ "$code" = 0 ] || bad "nvidia-smi: exit code $code"
    [ "$i" -gt 0 ] || bad 'nvidia-smi: no GPU'
  fi
  rm -f "$report" "$report.code"
else
  bad 'nvidia-smi: not found'
fi
cuda=; driver=${driver%%.*}
case $driver in '' | *[!0-9]*) ;; *) cuda_of "$driver" ;; esac
disk=$(df -Pk "$HOME" | awk 'NR == 2 { printf "%d", $4 * 1.024e-6 }')
bytes=$(awk '/^MemTotal:/ { printf "%.0f", $2 * 1024 }' /proc/meminfo 2>/dev/null || sysctl -n hw.memsize 2>/dev/null)
for file in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do
  first_line "$file"
  case $line in '' | *[!0-9]* | ???????????????????*) ;; *) [ "$line" -ge "${bytes:-0}" ] || bytes=$line ;; esac
done
python=$(python3 -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null)
command -v tar >/dev/null 2>&1 && tar=yes || tar=no
printf '%s\n' "gpu_error=$error" "cuda=$cuda" "disk_free_gb=${disk:-0}" "memory_gb=$((${bytes:-0} / 1000000000))" \
  "cpus=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)" "python=$python" "tar=$tar"
"""


def _cuda_of() -> str:
    tests = "".join(f'[ "$1" -lt {driver} ] || {{ cuda={cuda}; return; }}\n' for driver, cuda in _CUDA_OF_DRIVER)
    return f"cuda_of() {{\n{tests}}}\n"


def probe(limit_s: int = 20) -> Command:
    """Command that looks at the machine; nvidia-smi is called once and killed after `limit_s`.

    Replies: `gpu.i=NAME, MIB, COMPUTE_CAPABILITY, DRIVER` per healthy card, `gpu_error` (the first thing that was
    wrong, empty if none; `nvidia-smi: not found` without one), `cuda` (the newest that the driver runs, or empty),
    `disk_free_gb`, `memory_gb` (the container's, in whole GB), `cpus`, `python` (version or empty), `tar` (yes/no).
    """
    given = f"limit={int(limit_s)}\n"
    return Command("probe", text("probe", given, _cuda_of(), _PROBE), limit_s + 20.0)
