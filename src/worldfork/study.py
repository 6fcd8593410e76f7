"""A whole study as calls in order: the file to read first."""
