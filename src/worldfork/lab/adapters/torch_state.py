"""PyTorch modules, optimisers and tensors as NumPy arrays by name, for `get_state` and `set_state`.

    def get_state(self):
        return torch_state({"model": self.model, "optimiser": self.optimiser})

    def set_state(self, state):
        load_torch_state({"model": self.model, "optimiser": self.optimiser}, state)

An optimiser of PyTorch makes its moments at its first step. Here they exist from the beginning, as they would be
just before that step, so that every checkpoint has them under the same names.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

OPTIMISER: Final = "optimiser."  # how the names begin that do not count as parameters


def torch_state(parts: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return all that modules, optimisers and tensors hold, as copies.

    Args:
        parts: modules, optimisers and tensors by a name of yours, always in the same order.

    A module's arrays are called as in its `state_dict`, behind its name; an optimiser's `optimiser.NAME.0.exp_avg`,
    by the place of the weight and the moment, or `optimiser.0.exp_avg` for the one that is called `optimiser`.

    Example:
        >>> torch_state({"model": torch.nn.Linear(2, 1)}).keys()  # doctest: +SKIP
        dict_keys(['model.weight', 'model.bias'])
    """
    return {
        name: np.array(held[key].detach().cpu().numpy() if hasattr(held[key], "detach") else held[key])
        for name, held, key in _slots(parts)
    }


def load_torch_state(parts: Mapping[str, Any], state: Mapping[str, np.ndarray]) -> None:
    """Put back what `torch_state` returned of the same parts. Other names in `state` are left alone.

    Args:
        parts: modules, optimisers and tensors by the names that `torch_state` was given.
        state: the arrays; a name that is missing raises KeyError, a wrong shape RuntimeError.

    Example:
        >>> load_torch_state({"model": other}, torch_state({"model": model}))  # doctest: +SKIP
    """
    import torch

    with torch.no_grad():
        for name, held, key in _slots(parts):
            array = state[name]
            if isinstance(held[key], torch.Tensor):
                held[key].copy_(torch.from_numpy(np.array(array)))
            else:
                held[key] = np.asarray(array).item()


def _slots(parts: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield (name, dictionary, key) of every tensor or number that the parts hold."""
    import torch

    for part, thing in parts.items():
        if isinstance(thing, torch.optim.Optimizer):
            prefix = OPTIMISER if part == "optimiser" else f"{OPTIMISER}{part}."
            weights = [weight for group in thing.param_groups for weight in group["params"]]
            if any(not thing.state[weight] for weight in weights):
                _make_moments(thing, weights)
            for place, weight in enumerate(weights):
                yield from ((f"{prefix}{place}.{key}", thing.state[weight], key) for key in thing.state[weight])
        elif isinstance(thing, torch.nn.Module):
            tensors = thing.state_dict()
            yield from ((f"{part}.{key}", tensors, key) for key in tensors)
        else:
            yield part, {part: thing}, part


def _make_moments(optimiser: Any, weights: list[Any]) -> None:
    """Have an optimiser make its moments, and set them to what they are before the first step."""
    import torch

    groups = [dict(group) for group in optimiser.param_groups]
    gradients = [weight.grad for weight in weights]
    for group in optimiser.param_groups:
        group |= {"lr": 0.0, "weight_decay": 0.0}
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    optimiser.step()
    for group, before in zip(optimiser.param_groups, groups, strict=True):
        group |= before
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = gradient
        for name, value in optimiser.state[weight].items():
            # A step of zero gradients leaves a moment at zero, or near the one at which RMSprop after TensorFlow
            # begins; a count goes from zero to one.
            begun = 0 * value if name == "step" or value is None else (value != 0).to(value.dtype)
            optimiser.state[weight][name] = begun
