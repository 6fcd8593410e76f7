"""The model of TD-MPC2: networks, losses and optimisers on flat dictionaries of arrays."""
