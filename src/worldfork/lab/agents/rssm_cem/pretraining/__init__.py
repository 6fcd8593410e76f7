"""Trains checkpoints on clean physics."""
