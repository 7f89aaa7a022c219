"""The database, step by step: each migration is one move of its tables."""
