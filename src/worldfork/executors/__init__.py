"""Executors: places where the tasks of a study are computed."""
