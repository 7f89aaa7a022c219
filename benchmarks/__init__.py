"""What it costs to use this program, in seconds, bytes and machines; `python -m benchmarks` measures and writes it."""
