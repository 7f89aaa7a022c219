"""One file per state, in the order of the flow. Each gets a Snapshot and the World and returns a StepResult."""
