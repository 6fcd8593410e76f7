"""Rolls out batches of episodes: agent x environment x draws."""
