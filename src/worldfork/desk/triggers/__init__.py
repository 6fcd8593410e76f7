"""Rules that read the pre-fork stream and say when to update."""
