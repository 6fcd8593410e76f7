"""Contract kits: what worldfork asks of an environment, an agent, a mechanism, a signal, a trigger, an executor.

    from worldfork.testing import check_environment
    print(check_environment("my_package.worlds:Pendulum"))

Each function takes a name of the registry, a plug-in class or record, or an object, examines it rule by rule, and
raises one `ContractError` that says what is wrong and what to do. worldfork's own tests call the same functions. No
kit needs JAX or MuJoCo.
"""

from worldfork.testing.agents import check_agent
from worldfork.testing.environments import check_environment
from worldfork.testing.executors import check_executor
from worldfork.testing.mechanisms import check_mechanism
from worldfork.testing.report import ContractError, Problem, Report
from worldfork.testing.signals import check_signal
from worldfork.testing.triggers import check_trigger

__all__ = [
    "ContractError",
    "Problem",
    "Report",
    "check_agent",
    "check_environment",
    "check_executor",
    "check_mechanism",
    "check_signal",
    "check_trigger",
]
