"""PyTorch's modules and optimisers as arrays: a twin that is given them goes on to the same digits."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is no dependency of worldfork's")

from worldfork.lab.adapters.torch_state import load_torch_state, torch_state  # noqa: E402

OPTIMISERS = {
    "Adam": lambda weights: torch.optim.Adam(weights, lr=0.1, amsgrad=True),
    "AdamW": lambda weights: torch.optim.AdamW(weights, lr=0.1, weight_decay=0.1),
    "SGD": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9, weight_decay=0.1),
    "RMSprop": lambda weights: torch.optim.RMSprop(weights, lr=0.1, momentum=0.5),
}


def parts(name: str, seed: int = 0) -> dict[str, Any]:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    optimiser = OPTIMISERS[name](model.parameters())
    return {"model": model, "optimiser": optimiser, "scale": torch.ones(2)}


def teach(held: dict[str, Any], steps: int) -> None:
    torch.manual_seed(7)
    for _ in range(steps):
        loss = held["model"](torch.randn(8, 3)).square().mean()
        held["optimiser"].zero_grad()
        loss.backward()
        held["optimiser"].step()


@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("steps", [0, 3])
def test_a_twin_goes_on_as_the_first_does(name: str, steps: int) -> None:
    first, twin = parts(name), parts(name, seed=1)
    teach(first, steps)
    state = torch_state(first)
    load_torch_state(twin, state)
    for held in (first, twin):
        teach(held, 2)
    after, there = torch_state(first), torch_state(twin)
    assert after.keys() == state.keys(), "moments have names before the first step"
    assert all(np.array_equal(after[key], there[key]) for key in after)
    assert any(not np.array_equal(after[key], state[key]) for key in after), "what was handed out are copies"


@pytest.mark.parametrize("name", OPTIMISERS)
def test_moments_that_were_made_early_change_nothing(name: str) -> None:
    plain, asked = parts(name), parts(name)
    before = [weight.clone() for weight in asked["model"].parameters()]
    torch_state(asked)
    assert all(torch.equal(old, new) for old, new in zip(before, asked["model"].parameters(), strict=True))
    assert all(weight.grad is None for weight in asked["model"].parameters())
    for held in (plain, asked):
        teach(held, 3)
    there, here = torch_state(plain), torch_state(asked)
    assert all(np.array_equal(there[key], here[key]) for key in there)


def test_names_say_which_part_is_the_optimiser() -> None:
    held = parts("Adam")
    names = torch_state({"net": held["model"], "net.optimizer": held["optimiser"], "optimiser": held["optimiser"]})
    assert {"net.0.weight", "optimiser.net.optimizer.0.exp_avg", "optimiser.0.step"} <= names.keys()
    with pytest.raises(KeyError):
        load_torch_state(held, {})
