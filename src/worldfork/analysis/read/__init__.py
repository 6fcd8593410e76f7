"""Ledgers and flat tables in and out: the one place where the analysis meets files.

A study's forks are arrays: they can be read, and thresholds fitted on them, where polars is not installed. Data
frames (`frames`, `table`, `files`) come with polars.
"""
