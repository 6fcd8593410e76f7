"""A water tank that leaks more and more, and an ensemble of models that keeps it full."""
