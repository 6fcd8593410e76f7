"""What the members disagreed on, over the episode before the fork."""

import numpy as np

from worldfork.lab.signals import Episode, Signal


class Disagreement(Signal):
    def read(self, episode: Episode) -> float:
        if "disagreement" not in episode.steps:
            return float("nan")
        return float(np.mean(episode.steps["disagreement"]))
