"""Where blocks of forks run: this process, or many machines."""
