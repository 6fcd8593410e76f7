"""Checkpoints that are trained here, on disk: a .safetensors file, and a JSON manifest beside it.

A checkpoint may keep a replay, some of what it was pretrained on, for mechanisms that rehearse. It lies beside as
`<name>.npz`, with its digest in the manifest; the checkpoint's own digest is that of its weights, and none of
them. Transitions are kept as whole sequences, and `first` marks where each begins.
"""

import dataclasses
import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from safetensors import SafetensorError
from safetensors.numpy import load as parse
from safetensors.numpy import save as spell

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Arrays, Checkpoint
from worldfork.lab.agents.stateful_checkpoints import REPLAY, read_replay
from worldfork.lab.environments.base import Environment
from worldfork.ledger import arrays, files

SCHEMA: Final = "worldfork.checkpoint/1"
COLUMNS: Final = ("observation", "action", "reward", "next_observation", "first")


def keep_replay(path: Path, columns: Mapping[str, np.ndarray], *, source: str) -> dict[str, Any]:
    """Write transitions beside the checkpoint at `path`; return their entry in its manifest."""
    stored = {name: np.asarray(columns[name], bool if name == "first" else np.float32) for name in COLUMNS}
    content = arrays.npz_bytes(stored, compress=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path.with_suffix(REPLAY), content)
    return {
        "transitions": len(stored["reward"]),
        "digest": hashlib.sha256(content).hexdigest(),
        "source": source,
    }


@runtime_checkable
class Measured(Protocol):
    """An agent whose checkpoints were trained here: what their manifests are compared with."""

    @property
    def described(self) -> dict[str, Any]:
        """The settings that its parameters depend on."""

    @property
    def planner(self) -> Any:
        """The settings of its search, a data class."""


def load(path: Path, agent: Measured, environment: Environment, *, training: Collection[str]) -> Checkpoint:
    """Return the checkpoint at `path` for this agent in this task; raise one sentence about anything wrong with it.

    `training` names the agent's settings that UPDATE shares with pretraining.
    """
    manifest, arrays = read_arrays(path, task=environment.name, model=agent.described)
    update = {name: getattr(agent, name) for name in training}
    remark = _remark(path, manifest, planner=dataclasses.asdict(agent.planner), update=update)
    replay_digest = manifest["replay"]["digest"] if "replay" in manifest else None
    replay = read_replay(path, replay_digest)
    return Checkpoint(
        parameters=_group(arrays, "parameters"),
        optimiser=_group(arrays, "optimiser"),
        clean_return=manifest["returns"]["mean"],
        digest=manifest["digest"],
        remark=remark,
        replay=replay,
        replay_digest=None if replay is None else replay_digest,
    )


def save(path: Path, parameters: Arrays, optimiser: Arrays, manifest: Mapping[str, Any]) -> str:
    """Write one parameter set (no leading axis) and its manifest; return the digest of the arrays' file."""
    arrays = {
        f"{kind}/{name}": np.ascontiguousarray(array, np.float32)
        for kind, group in (("parameters", parameters), ("optimiser", optimiser))
        for name, array in group.items()
    }
    content = spell(arrays)
    digest = hashlib.sha256(content).hexdigest()
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    full = {"schema": SCHEMA, **manifest, "shapes": shapes, "digest": digest}
    files.replace(path, content)
    files.replace(path.with_suffix(".json"), (json.dumps(full, indent=1, sort_keys=True) + "\n").encode())
    return digest


def read_arrays(path: Path, *, task: str, model: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return manifest and arrays of a checkpoint of this model, trained on this task in a world without drift."""
    manifest = read_manifest(path)
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != manifest["digest"]:
        raise WorldforkError(
            f"{path} is not the file its manifest describes (truncated or altered): fetch it again."
        )
    try:
        arrays = parse(content)
    except SafetensorError as error:
        raise WorldforkError(f"{path} is not a safetensors file ({error}).") from None
    if manifest["task"] != task:
        raise WorldforkError(f"{path} was trained on {manifest['task']}, not on {task}.")
    if (stored := manifest["model"]) != model:
        names = sorted(name for name in {*stored, *model} if stored.get(name) != model.get(name))
        listed = ", ".join(f"{name}: {stored.get(name)} there, {model.get(name)} registered" for name in names)
        raise WorldforkError(f"{path} holds another model than the one registered ({listed}).")
    if not manifest.get("clean_physics", {}).get("read"):
        raise WorldforkError(
            f"{path} has no proof that it was trained on clean physics, so it can not be deployed."
        )
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    if shapes != manifest["shapes"]:
        raise WorldforkError(f"The arrays in {path} do not have the shapes that its manifest lists.")
    return manifest, arrays


def _remark(
    path: Path, manifest: Mapping[str, Any], *, planner: Mapping[str, Any], update: Mapping[str, Any]
) -> str:
    """Return where the planner and the training that are registered are not those that the manifest says."""
    remarks = []
    if differing := _differing(manifest.get("planner", {}), planner):
        remarks.append(
            f"its clean return of {manifest['returns']['mean']:.1f} belongs to another planner ({differing})"
        )
    if differing := _differing(manifest.get("recipe", {}), update):
        remarks.append(f"it was pretrained otherwise than UPDATE will train it ({differing})")
    return f"{path.name}: {'; '.join(remarks)}." if remarks else ""


def _differing(stored: Mapping[str, Any], registered: Mapping[str, Any]) -> str:
    """List the settings that both have and that are not the same: `iterations 1, not 5`."""
    names = (name for name in registered if name in stored and stored[name] != registered[name])
    return ", ".join(f"{name} {stored[name]}, not {registered[name]}" for name in names)


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest beside a checkpoint's arrays."""
    beside = path.with_suffix(".json")
    for needed in (path, beside):
        if not needed.is_file():
            raise WorldforkError(
                f"There is no {needed}: a checkpoint is a .safetensors file with a .json beside it."
            )
    try:
        manifest: dict[str, Any] = json.loads(beside.read_text(encoding="utf-8"))
        schema = str(manifest["schema"])
    except (ValueError, KeyError, TypeError):
        raise WorldforkError(
            f"{beside} is not a checkpoint's manifest: it is no JSON object with a `schema`."
        ) from None
    if schema != SCHEMA:
        raise WorldforkError(
            f"{beside} says `{schema}`, and this version reads `{SCHEMA}`: use a worldfork that does."
        )
    needed_fields = {"task", "seed", "model", "shapes", "digest", "returns", "clean_physics"}
    if missing := sorted(needed_fields - manifest.keys()):
        raise WorldforkError(f"{beside} lacks {', '.join(missing)}: it was not written by worldfork.")
    return manifest


def _group(arrays: Mapping[str, np.ndarray], kind: str) -> dict[str, Array]:
    """Return the arrays of one kind on the device, with a leading axis of one parameter set."""
    group = {name.removeprefix(f"{kind}/"): array for name, array in arrays.items() if name.startswith(f"{kind}/")}
    return {name: jnp.asarray(array)[None] for name, array in group.items()}
