"""What happened: one row per fork, append-only."""
