"""Archives of Stable-Baselines3, read without unpickling anything.

`model.save` writes a zip file: tensors, and settings as JSON in which Python objects lie pickled beside a text of
what they are. Tensors are read with `weights_only=True`; of the settings only plain JSON and those texts.
"""

import io
import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from worldfork.errors import WorldforkError
from worldfork.ledger.arrays import npz_arrays, npz_bytes

EXTRA: Final = "worldfork.npz"  # what `pack` adds; SB3 leaves it alone when it loads the archive
UNBOUNDED: Final = 1e30  # a clip that clips nothing, and that arithmetic on parameters survives
NORMALISATION: Final = {"mean": 0.0, "std": 1.0, "clip": UNBOUNDED, "reward_std": 1.0, "reward_clip": UNBOUNDED}
# Settings of SB3's constructors on which acting or `train` depends.
DECISIVE: Final = (
    *("policy_kwargs", "learning_rate", "batch_size", "gamma", "tau", "ent_coef", "target_entropy", "use_sde"),
    *("target_update_interval", "policy_delay", "target_policy_noise", "target_noise_clip", "gae_lambda"),
    *("vf_coef", "max_grad_norm", "normalize_advantage", "clip_range", "clip_range_vf", "target_kl"),
)


def pack(model: Any, path: Path | str, *, replay: int = 0) -> Path:
    """Save a model as `model.save` does, and in the same archive what that leaves out, as arrays.

    Args:
        model: a model of SB3, with its environment and replay buffer; a `VecNormalize` around its environment is
            packed with it.
        path: the archive to write; `.zip` is added.
        replay: how many of the newest transitions of its replay buffer to keep, for the mechanism `rehearsal`.

    Example:
        >>> pack(model, "models/sac-0.zip", replay=10_000)  # doctest: +SKIP
    """
    file = Path(path) if Path(path).suffix == ".zip" else Path(f"{path}.zip")
    extra = _replay_columns(model, replay) if replay else {}
    model.save(file)
    if (normaliser := model.get_vec_normalize_env()) is not None:
        scales = {}
        if normaliser.norm_obs:
            spread = np.sqrt(normaliser.obs_rms.var + normaliser.epsilon)
            scales = {"mean": normaliser.obs_rms.mean, "std": spread, "clip": [normaliser.clip_obs]}
        if normaliser.norm_reward:
            spread = np.sqrt(normaliser.ret_rms.var + normaliser.epsilon)
            scales |= {"reward_std": [spread], "reward_clip": [normaliser.clip_reward]}
        extra |= {f"normalisation.{name}": np.array(values, np.float64) for name, values in scales.items()}
    if extra:
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr(EXTRA, npz_bytes(extra))
    return file


def _replay_columns(model: Any, count: int) -> dict[str, np.ndarray]:
    """Return the newest transitions of a replay buffer, one environment's after another's, oldest first."""
    buffer = getattr(model, "replay_buffer", None)
    if buffer is None or not buffer.size():
        raise WorldforkError(
            f"This {type(model).__name__} holds no transitions to keep as its replay. Pack it where it was trained "
            "or after `load_replay_buffer`; an on-policy model has none, so leave `replay` out."
        )
    held = buffer.buffer_size if buffer.full else buffer.pos
    rows = (np.arange(buffer.pos - min(held, max(1, count // buffer.n_envs)), buffer.pos)) % buffer.buffer_size
    following = buffer.observations[(rows + 1) % buffer.buffer_size] if buffer.optimize_memory_usage else None
    done = buffer.dones[rows] > 0
    columns = {
        "observation": buffer.observations[rows],
        "action": model.policy.unscale_action(buffer.actions[rows]),
        "reward": buffer.rewards[rows],
        "next_observation": buffer.next_observations[rows] if following is None else following,
        "first": np.concatenate([np.ones_like(done[:1]), done[:-1]]),
        "terminated": done & (buffer.timeouts[rows] == 0),
    }
    joined = {name: values.swapaxes(0, 1).reshape(-1, *values.shape[2:]) for name, values in columns.items()}
    return {
        f"replay.{name}": values if values.dtype == np.bool_ else values.astype(np.float64)
        for name, values in joined.items()
    }


def read_archive(path: Path, model: Any, *, registered: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], int]:
    """Fill a model with an archive's tensors; return the arrays that `pack` added, and the count of updates.

    Args:
        path: the archive.
        model: the model that was made from the registered settings; an archive with others is refused.
        registered: settings that were given by name, which are taken as they are.
    """
    import torch
    from stable_baselines3.common.save_util import recursive_setattr

    try:
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist() if name != "system_info.txt"}
        saved = json.loads(members["data"])
        tensors = {
            Path(name).stem: torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
            for name, content in members.items()
            if name.endswith(".pth")
        }
    except Exception as error:  # whatever a damaged file, or one that is something else, makes the libraries raise
        raise WorldforkError(f"`{path.name}` is no archive that SB3's `model.save` wrote ({error}).") from error
    _require_same_settings(saved, model, path=path, registered=registered)
    variables = tensors.pop("pytorch_variables", None) or {}
    try:
        model.set_parameters(tensors, device="cpu")
        for name, tensor in variables.items():
            if tensor is not None:
                recursive_setattr(model, f"{name}.data", tensor.data)
    except (AttributeError, RuntimeError, ValueError) as error:
        raise WorldforkError(
            f"`{path.name}` does not fit the networks that are registered: it was trained with policy_kwargs = "
            f"{_toml(_plain_text(saved.get('policy_kwargs')) or {})}, and registered is policy_kwargs = "
            f"{_toml(registered.get('policy_kwargs') or {})}."
        ) from error
    extra = npz_arrays(members[EXTRA], path) if EXTRA in members else {}
    return extra, int(saved["_n_updates"])


def _require_same_settings(
    saved: Mapping[str, Any], model: Any, *, path: Path, registered: Mapping[str, Any]
) -> None:
    names = (*DECISIVE, *(["n_steps"] if hasattr(model, "replay_buffer") else []))  # else a rollout's length
    if any((name in saved) != hasattr(model, name) for name in names):
        policy = _plain_text(saved.get("policy_class"))
        module = policy.get("__module__") if isinstance(policy, dict) else None
        raise WorldforkError(
            f"`{path.name}` is not a {type(model).__name__}: it looks like the archive of another algorithm"
            + (f", whose policy is from {module}" if module else "")
            + ". Register the `algorithm` that trained it."
        )
    for space, parts, remedy in (
        ("observation_space", ("_shape",), "register the environment that it was trained in"),
        ("action_space", ("_shape", "low", "high"), "train it in gymnasium's RescaleAction"),
    ):
        texts = (_plain_text(held) for held in (saved[space], getattr(model, space)))
        before, here = ({part.strip("_"): text.get(part) for part in parts} for text in texts)
        if any(value not in (None, here[part]) for part, value in before.items()):
            seen = f"with the {space} {_toml(before)}, and this world has {_toml(here)}"
            raise WorldforkError(f"`{path.name}` was trained {seen}: {remedy}.")
    wanted = {}
    for name in names:
        before, here = (_plain_text(value) for value in (saved.get(name), getattr(model, name, None)))
        if name not in registered and before != here:
            both = isinstance(before, dict) and isinstance(here, dict)
            wanted[name] = {k: v for k, v in before.items() if here.get(k) != v} if both else before
    if wanted:
        raise WorldforkError(
            f"`{path.name}` was trained with other settings than are registered. In the task's settings, write\n"
            f"  hyperparameters = {(line := _toml({**registered, **wanted}))}"
            + ("\nA text in <> is a Python object in the archive, which is not unpickled." if "<" in line else "")
        )


def _plain_text(value: Any) -> Any:
    """Return a setting as an archive shows it without unpickling: itself, or its parts, some of them texts."""
    if not isinstance(value, dict):
        plain = _as_json(value)
        if plain is not None or value is None:
            return plain
        value = vars(value)
    parts = {name: part for name, part in value.items() if not name.startswith(":")}
    if constant := re.fullmatch(r"ConstantSchedule\(val=(.+)\)", str(parts.get("value_schedule"))):
        return float(constant[1])
    if not parts and ":type:" in value:
        return value[":type:"]
    return {
        name: str(part) if (plain := _as_json(part)) is None and part is not None else plain
        for name, part in parts.items()
    }


def _as_json(value: Any) -> Any:
    """Return the value as it comes back from JSON, and None for what JSON can not hold."""
    try:
        return json.loads(json.dumps(value))
    except TypeError:
        return None


def _toml(value: Any) -> str:
    """Return a value as an inline table of TOML would hold it; a class of `torch.nn` by its name."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_toml(part)}" for name, part in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    named = re.fullmatch(r"<class 'torch\.nn\.modules\.\w+\.(\w+)'>", value) if isinstance(value, str) else None
    return json.dumps(named[1] if named else value)
