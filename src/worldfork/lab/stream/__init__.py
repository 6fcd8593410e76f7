"""The frozen deployment, its log and its window (paper, stage 1)."""
