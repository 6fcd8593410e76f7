"""Mechanisms: what UPDATE does to the parameters."""
