"""Figures and verdicts in words: one place for the page, the screen and the tables."""
