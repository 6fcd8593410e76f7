"""Where the tasks of a study are computed."""
