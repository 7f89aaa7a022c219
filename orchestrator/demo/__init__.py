"""The 60-second story that `gpupoor demo` tells with real processes, and the proofs that it really happened."""
