"""The imagination kernel's source, and the compiler that comes with jax for GPUs."""
