"""The page: one HTML file with everything that a study says, and its live view."""
