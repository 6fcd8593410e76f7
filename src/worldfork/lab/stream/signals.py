"""What a trigger may read at a fork, from the stream before it alone (paper, "Scoring"; docs/protocol.md)."""

import numpy as np

from worldfork.lab.stream.deployment import StreamLog

__all__ = ["signals"]


def signals(
    log: StreamLog, k: int, *, level: float, clean_return: float, validation_loss: float
) -> dict[str, float]:
    """The registered signals at decision point k, over the episode that ends there; larger: more reason to update.

    `level` is the drift at the fork; `validation_loss` is the frozen model's training loss on that episode.
    """
    before = log.episode == k
    error, kl, reward = log.error[before], log.kl[before], log.reward[before]
    with np.errstate(over="ignore", invalid="ignore"):
        return {
            "residual": float(np.mean(error)),
            "kl": float(np.mean(kl)),
            "running_variance": float(np.var(error, ddof=1)) if len(error) > 1 else float("nan"),
            "percentile": float(np.percentile(error, 95)),
            "return_deficit": clean_return - float(np.sum(reward)),
            "validation_loss": validation_loss,
            "drift": level,
            "clock": float(k),
        }
