"""The paper's agent: an RSSM that filters, CEM that plans through it, and how its checkpoints are trained."""
