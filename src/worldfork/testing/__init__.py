"""Contract kits: is an environment, an agent, a mechanism, a signal, a trigger or an executor what forks need?

    from worldfork.testing import check_environment
    print(check_environment("my_package.worlds:Pendulum"))

Each function takes a name of the registry, a plug-in class or record, or an object, examines it rule by rule, and
raises one `ContractError` that says what is wrong and what to do. `worldfork test` does so from the command line,
for any simulator and agent too (`check_by_name`). worldfork's own tests call the same functions. No kit needs JAX
or MuJoCo.
"""

from worldfork.testing.agents import check_agent
from worldfork.testing.by_name import check_by_name
from worldfork.testing.contract import ContractError, Problem, Report
from worldfork.testing.environments import check_environment
from worldfork.testing.executors import check_executor
from worldfork.testing.mechanisms import check_mechanism
from worldfork.testing.save_and_restore import check_simulator
from worldfork.testing.signals import check_signal
from worldfork.testing.triggers import check_trigger

__all__ = [
    "ContractError",
    "Problem",
    "Report",
    "check_agent",
    "check_by_name",
    "check_environment",
    "check_executor",
    "check_mechanism",
    "check_signal",
    "check_simulator",
    "check_trigger",
]
