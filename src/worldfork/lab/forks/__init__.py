"""Paired branches on matched episodes (paper, stage 2)."""
