"""TD-MPC2 (Hansen, Su and Wang, ICLR 2024) in JAX, from the facts of the paper: many parameter sets at once."""
