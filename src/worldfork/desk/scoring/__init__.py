"""Effects, rankings, policies and their controls (paper, stage 3)."""
