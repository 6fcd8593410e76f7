"""What a trigger may see: the stream up to the fork, and nothing of what followed."""
