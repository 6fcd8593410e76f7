"""How checkpoints of TD-MPC2 are trained: several seeds in one program."""
