"""Small deployments of the linear-quadratic world, for tests that run one."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kill_and_resume import REGISTRATION

from worldfork.lab.closed_loop.jobs import Advance

DEPLOYED = (
    REGISTRATION.replace('name = "killed"', 'name = "deployed"')
    .replace("checkpoints = [0]", "checkpoints = [0, 1]")
    .replace('directions = ["toward", "away"]', 'directions = ["away"]')
    + """
[deployment]
cells_per_batch = 1
evaluate_at = [2, 4]
episodes = 5

[deployment.policies.periodic]
trigger = "periodic"
settings = {period = 2}

[deployment.policies.residual]
trigger = "residual"
threshold = 0.007
arm = "many"

[deployment.policies.coin]
trigger = "random"
rate = 0.5
"""
)
TRIED = (
    DEPLOYED
    + """
[deployment.policies.try]
trigger = "always"
trial = 1

[deployment.policies.try-two]
trigger = "always"
arm = "many"
trial = 2
"""
)


class Interrupted:
    """An executor that does so many segments, each in the form in which it would leave the process, and is then
    stopped."""

    def __init__(self, segments: int) -> None:
        self.segments = segments

    def map(self, function: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        for index, job in enumerate(jobs):
            if isinstance(job, Advance):
                if self.segments == 0:
                    raise KeyboardInterrupt
                self.segments -= 1
                job = pickle.loads(pickle.dumps(job))
            yield index, function(job)
