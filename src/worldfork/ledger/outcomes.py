"""What followed a fork: the returns of both branches, dR, and divergence."""
