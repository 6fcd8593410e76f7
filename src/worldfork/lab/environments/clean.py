"""Proof that pretraining saw nominal physics and no noise, for a checkpoint's manifest.

Paper, "Environment and model": the trainer reads back the constructed environment to verify that no perturbation
was active. Flags can lie, so the physical parameters themselves are read; a checkpoint without this is refused.
"""

from typing import Any

from worldfork.errors import WorldforkError
from worldfork.lab.environments.base import Environment


def prove_clean(environment: Environment, *, level: float = 0.0, sigma_a: float = 0.0) -> dict[str, Any]:
    """Return the record of a clean world: what drifts, its nominal values, and those read from the simulator.

    `level` and `sigma_a` are those that pretraining is about to use. Anything but nominal physics is refused.
    """
    if level != 0.0 or sigma_a != 0.0:
        raise WorldforkError(
            f"Pretraining runs at level 0 and sigma_a 0; got level {level} and sigma_a {sigma_a}. "
            "A checkpoint that has seen drift or noise can not be forked."
        )
    nominal, read = environment.nominal(), environment.read_back()
    wrong = [name for name in nominal | read if nominal.get(name) != read.get(name)]
    if wrong:
        found = ", ".join(f"{name} is {read.get(name)}, not {nominal.get(name)}" for name in sorted(wrong))
        raise WorldforkError(
            f"The physics of {environment.name} is not clean: {found}. Load the task anew for pretraining."
        )
    return {
        "task": environment.name,
        "simulator": environment.simulator,
        "parameter": environment.parameter,
        "nominal": nominal,
        "read": read,
        "level": level,
        "sigma_a": sigma_a,
    }
