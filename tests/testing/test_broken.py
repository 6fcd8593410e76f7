"""The kits catch what they promise to catch: each broken class is refused in words its author can act on."""

import re
from pathlib import Path
from typing import Any

import broken_agents
import broken_environments
import broken_others
import broken_pairs
import broken_simulators
import broken_stateful
import pytest

from worldfork.errors import WorldforkError
from worldfork.lab.agents.linear_quadratic import LinearQuadratic, LinearQuadraticPlugin
from worldfork.lab.environments.linear_quadratic import World
from worldfork.testing import (
    ContractError,
    check_agent,
    check_environment,
    check_executor,
    check_mechanism,
    check_signal,
    check_simulator,
    check_trigger,
)


def refused(error: ContractError, words: str) -> None:
    assert re.search(words, str(error), re.DOTALL), str(error)
    assert isinstance(error, WorldforkError)
    assert "breaks its contract in one way" in str(error), "one fault, one line"
    assert len(error.problems) == 1


@pytest.mark.parametrize(("broken", "words"), broken_environments.BROKEN)
def test_broken_environments(broken: type[World], words: str) -> None:
    with pytest.raises(ContractError) as caught:
        check_environment(broken_environments.plugin_of(broken))
    refused(caught.value, words)


@pytest.mark.parametrize(("broken", "words"), broken_pairs.PAIRS)
def test_broken_pairs(broken: Any, words: str) -> None:
    with pytest.raises(ContractError) as caught:
        check_environment(broken)
    refused(caught.value, words)


def test_a_pair_that_is_whole() -> None:
    report = check_environment(broken_pairs.Whole)
    assert "What `save` returns, `restore` puts back" in report.kept
    assert not report.not_examined


@pytest.mark.parametrize(("broken", "words"), broken_simulators.SIMULATORS)
def test_broken_simulators(broken: Any, words: str) -> None:
    with pytest.raises(ContractError) as caught:
        check_simulator(broken)
    refused(caught.value, words)


@pytest.mark.parametrize("whole", [broken_simulators.Whole, broken_simulators.Copied])
def test_a_simulator_that_is_whole(whole: Any) -> None:
    report = check_simulator(whole, steps=60)
    assert len(report.kept) == 4
    assert not report.not_reached
    assert report.examined == "105 steps from 4 places; no episode ended"


def test_a_kept_report_says_that_an_episode_ended_and_lists_as_many_promises_as_a_broken_one() -> None:
    class Ends(broken_simulators.NoClock):
        def get_state(self) -> Any:
            return {**super().get_state(), "clock": self.clock}

        def set_state(self, state: Any) -> None:
            super().set_state(state)
            self.clock = state["clock"]

    report = check_simulator(Ends)
    assert report.examined == "90 steps from 4 places; an episode ended"
    assert report.examined in str(report)
    whole = check_agent(broken_stateful.LearnerPlugin, World(scale=2.0), precision="float64")
    with pytest.raises(ContractError) as caught:
        check_agent(broken_stateful.plugin_of(broken_stateful.DropsOptimiser), World(scale=2.0))
    broken = caught.value.report
    assert len(broken.problems) + len(broken.not_reached) == len(whole.kept)
    assert whole.examined == "in `linear_quadratic`: 2 observations, 1 action"


@pytest.mark.parametrize(("broken", "words"), broken_agents.BROKEN)
def test_broken_agents(broken: Any, words: str) -> None:
    with pytest.raises(ContractError) as caught:
        check_agent(broken_agents.plugin_of(broken), World(scale=2.0), precision="float64")
    refused(caught.value, words)


@pytest.mark.parametrize(("broken", "words"), broken_stateful.STATEFUL)
def test_broken_stateful_agents(broken: Any, words: str) -> None:
    with pytest.raises(ContractError) as caught:
        check_agent(broken_stateful.plugin_of(broken), World(scale=2.0))
    refused(caught.value, words)


def test_files_of_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    path.write_text("7")
    with pytest.raises(ContractError, match=r"There is no `.*model\.json`: a checkpoint is \.txt, \.json"):
        check_agent(broken_agents.Filed(), World(scale=2.0), precision="float64", checkpoints=[path])
    path.with_suffix(".json").write_text("{}")
    with pytest.raises(ContractError, match=r"`digest` is not the SHA-256 of `model\.txt`"):
        check_agent(broken_agents.Filed(), World(scale=2.0), precision="float64", checkpoints=[path])


@pytest.mark.parametrize(("broken", "words"), broken_others.MECHANISMS)
def test_broken_mechanisms(broken: Any, words: str) -> None:
    with pytest.raises(ContractError) as caught:
        check_mechanism(broken)
    refused(caught.value, words)


@pytest.mark.parametrize(("broken", "words"), broken_others.SIGNALS)
def test_broken_signals(broken: Any, words: str) -> None:
    with pytest.raises(ContractError) as caught:
        check_signal(broken)
    refused(caught.value, words)


@pytest.mark.parametrize(("broken", "words"), broken_others.TRIGGERS)
def test_broken_triggers(broken: Any, words: str) -> None:
    with pytest.raises(ContractError) as caught:
        check_trigger(broken)
    refused(caught.value, words)


@pytest.mark.parametrize(("broken", "words"), broken_others.EXECUTORS)
def test_broken_executors(broken: Any, words: str) -> None:
    with pytest.raises(ContractError) as caught:
        check_executor(broken, study=broken is broken_others.Rounding)
    refused(caught.value, words)


def test_a_mistake_is_shown_where_somebody_elses_code_made_it() -> None:
    class Hasty(LinearQuadratic):
        def loss(self, parameters: Any, window: Any) -> Any:
            return super().loss({}, window)  # ours raises, and this line is why

    class HastyPlugin(LinearQuadraticPlugin):
        def build(self, environment: Any, *, precision: str) -> Hasty:
            return Hasty(environment.matrices, **self.model_dump())

    with pytest.raises(ContractError, match=r"KeyError: 'A'[\s\S]*Hasty\.loss") as refusal:
        check_agent(HastyPlugin(), "linear_quadratic", precision="float64")
    assert isinstance(refusal.value.__cause__, KeyError)
