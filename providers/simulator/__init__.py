"""A market and its machines, in a process of its own (`gpupoor cloud`) or inside a test on a virtual clock."""
