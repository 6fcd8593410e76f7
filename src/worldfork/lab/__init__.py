"""Turns a registration into a ledger (JAX, MuJoCo)."""
