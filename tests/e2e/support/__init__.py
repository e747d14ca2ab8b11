"""What the end-to-end tests share. Python's standard library only."""
