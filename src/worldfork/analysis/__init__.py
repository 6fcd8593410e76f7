"""Turns ledgers into figures, tables and a page. No JAX, no MuJoCo."""
