"""What is asked of an agent and a world outside a study: what it costs, how far to drift, is the answer right."""
