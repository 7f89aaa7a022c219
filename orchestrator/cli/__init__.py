"""The command line: a thin door to submit, cancel, reap and the views."""
