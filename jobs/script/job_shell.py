"""The job shell: leads the job's process group, makes the environment, runs setup and then run.

It is run with the job's streams on 3 and 4; what it says itself goes nowhere, so that the log has only what the
job printed. Its names begin with gp_, since the job's variables are read into the same shell.
"""

JOB_SHELL = r"""
gp_tag=$1 gp_state=$2 gp_dir=$3 gp_mark=$GPUPOOR_TAG gp_stopped=
trap 'gp_stopped=143' TERM
printf '%s\n' $$ >"$gp_state/pid.part" && mv -f "$gp_state/pid.part" "$gp_state/pid" || exit 97
# Looked at after the pid was written: whoever wrote a tombstone before sees the pid, or we see the tombstone
[ ! -e "$gp_state/tombstone" ] || exit 97
gp_done() { printf '%s\n' "$1" 1<>"$gp_state/code.part"; mv -f "$gp_state/code.part" "$gp_state/code"; exit "$1"; }
gp_phase() { printf '%s\n' "$1" >"$gp_state/phase.part" && mv -f "$gp_state/phase.part" "$gp_state/phase"; }
gp_say() { printf 'gpupoor: %s\n' "$1" >&4; }
gp_first() { sed -n "s/^$1=//p" | sed 1q; }
# What the image says of PATH is known to PID 1 alone: SSH logins do not get it
gp_image() {
  case $(cat /proc/1/comm) in '' | systemd | init | launchd) return ;; esac
  gp_value=$(tr '\0' '\n' </proc/1/environ | gp_first PATH)
  [ -z "$gp_value" ] || PATH="$gp_value:$PATH"
  gp_value=$(tr '\0' '\n' </proc/1/environ | gp_first LD_LIBRARY_PATH)
  [ -z "$gp_value" ] || export LD_LIBRARY_PATH="$gp_value"
}
gp_environment() {
  gp_image 2>/dev/null
  export HF_HOME="$HOME/.cache/gpupoor/huggingface" TORCH_HOME="$HOME/.cache/gpupoor/torch"
  export UV_CACHE_DIR="$HOME/.cache/gpupoor/uv" PIP_CACHE_DIR="$HOME/.cache/gpupoor/pip"
  export WANDB_RUN_ID="${gp_tag%-*}" WANDB_RESUME=allow PYTHONUNBUFFERED=1
  [ ! -e "$gp_state/env" ] || . "$gp_state/env"
  export GPUPOOR_DIR="$gp_dir" GPUPOOR_JOB="${gp_tag%-*}" GPUPOOR_TAG="$gp_mark"
  [ ! -d "$gp_state/venv" ] || export VIRTUAL_ENV="$gp_state/venv" PATH="$gp_state/venv/bin:$PATH"
}
gp_venv() {
  gp_want=; read -r gp_want <"$gp_state/python"; gp_venv=$gp_state/venv
  if command -v uv; then uv venv -q --seed --python "$gp_want" "$gp_venv" && return; rm -rf "$gp_venv"; fi
  gp_short=$(printf '%s\n' "$gp_want" | cut -d. -f1,2)
  for gp_python in "python$gp_short" python3 python; do
    gp_have=$("$gp_python" -c 'import sys; print("%d.%d." % sys.version_info[:2])')
    case $gp_have in "$gp_short".*) ;; *) continue ;; esac
    "$gp_python" -m venv "$gp_venv" && return
    rm -rf "$gp_venv"
    "$gp_python" -m venv --without-pip "$gp_venv" || continue
    "$gp_python" -m pip --python "$gp_venv/bin/python" install -q pip ||
      gp_say "python $gp_want on this machine comes without pip"
    return 0
  done
  gp_say "python $gp_want cannot be had on this machine: name an image that has it, or one with uv"
  return 1
}
gp_run() {
  (
    cd "$gp_dir" || exit 1
    gp_environment
    if [ -n "$gp_bash" ]; then exec "$gp_bash" -eo pipefail "$gp_state/$1.sh"; fi
    exec sh -e "$gp_state/$1.sh"
  ) </dev/null >&3 2>&4 3>&- 4>&-
}
gp_phase setup
gp_bash=$(command -v bash)
[ -n "$gp_bash" ] || gp_say 'bash is not on this machine: sh -e runs the job, without pipefail'
if [ -s "$gp_state/python" ]; then
  (gp_environment; gp_venv) </dev/null >"$gp_state/venv.log" 2>&1 3>&-
  gp_code=$?
  [ -z "$gp_stopped" ] || gp_done 143
  [ "$gp_code" = 0 ] || gp_done 1
fi
if [ -s "$gp_state/setup.sh" ]; then
  gp_run setup
  gp_code=$?
  [ "$gp_code" = 0 ] || gp_done "$gp_code"
fi
[ -z "$gp_stopped" ] || gp_done 143
gp_phase run
gp_run run
gp_done $?
"""
