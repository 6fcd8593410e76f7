"""Agents: they act in a world and can be updated."""
