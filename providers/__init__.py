"""The world outside: everything that can be slow, lie or vanish."""
