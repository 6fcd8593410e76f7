"""What acts in a world and can be updated."""
