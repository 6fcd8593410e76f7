"""When should I retrain? A classifier on a drifting stream of requests whose labels arrive late.

python examples/retraining/retrain.py runs/retraining
"""

import sys

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import worldfork as wf

MODELS, HISTORY = 16, 1000  # models, each trained on so many examples of its own
DECISIONS, BLOCK = 10, 200  # after each block of requests the model could be retrained
DELAY, WINDOW = 100, 300  # a label arrives so many requests later; retraining uses the last so many labels
PRICE = 10.0  # of a retraining, in correct answers


def requests(random: np.random.Generator, count: int, change: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw requests with their labels. From request `change` on, the first feature says nothing any more."""
    features = random.normal(size=(count, 8))
    weights = np.tile(np.linspace(2.0, 0.5, 8), (count, 1))
    weights[change:, 0] = 0.0
    return features, (features * weights).sum(axis=1) + random.normal(size=count) > 0


def record(recorder: wf.Recorder) -> None:
    """Fork every model at every decision: the next block answered by the deployed model, and by a retrained one."""
    for number in range(MODELS):
        random = np.random.default_rng(number)
        deployed = LogisticRegression().fit(*requests(random, HISTORY, HISTORY))
        change = BLOCK * int(random.integers(2, 2 * DECISIONS))  # for half of the models after the last decision
        features, labels = requests(random, BLOCK * (DECISIONS + 1), change)
        for k in range(1, DECISIONS + 1):
            if recorder.has(checkpoint=number, k=k):
                continue  # recorded before this script was interrupted
            now = BLOCK * k
            arrived, following = slice(max(0, now - DELAY - WINDOW), now - DELAY), slice(now, now + BLOCK)
            retrained = clone(deployed).fit(features[arrived], labels[arrived])
            recorder.fork(
                checkpoint=number,
                k=k,
                hold=deployed.score(features[following], labels[following]) * BLOCK,
                update=retrained.score(features[following], labels[following]) * BLOCK,
                signals={"error": 1 - deployed.score(features[arrived], labels[arrived])},
            )


if __name__ == "__main__":
    recorder = wf.Recorder(
        sys.argv[1],
        task="classifier",
        question=f"When does retraining pay, if it costs {PRICE:g} correct answers?",
        common_random_numbers=True,  # both models answer the same requests
        exact_restore=True,  # the deployed model is never changed
        update_cost=PRICE,
    )
    record(recorder)
    for price in (0.0, PRICE):
        print(wf.score(recorder.path, triggers="error", update_cost=price).summary())
