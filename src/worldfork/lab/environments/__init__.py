"""Worlds that drift: batched, exact, and forkable because their state is data."""
