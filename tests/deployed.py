"""A small deployment of the linear-quadratic world, for tests that run one."""

from kill_and_resume import REGISTRATION

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
