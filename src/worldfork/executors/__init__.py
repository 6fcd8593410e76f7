"""Executors: places where the jobs of a study are computed."""
