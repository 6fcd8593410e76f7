"""What UPDATE does to the parameters."""
