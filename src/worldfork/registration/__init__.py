"""What will be run: frozen, strict, hashed before anything runs."""
