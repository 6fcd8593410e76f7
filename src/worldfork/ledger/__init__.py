"""Ledgers: one row per fork, chained and append-only."""
