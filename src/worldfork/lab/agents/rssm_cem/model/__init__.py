"""The recurrent state-space model: what the agent believes and predicts."""
