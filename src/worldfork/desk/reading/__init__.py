"""Ledgers and flat tables in and out: the one place where the desk meets files."""
