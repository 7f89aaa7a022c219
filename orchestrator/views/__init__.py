"""What people and programs are shown: documents made from rows, nothing changed."""
