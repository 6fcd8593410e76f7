"""The replay that a checkpoint keeps: some of what it was pretrained on, for mechanisms that rehearse.

It lies beside the checkpoint as `<name>.npz`, with its digest in the manifest. A checkpoint's own digest is that of
its weights and knows nothing of this. Transitions are kept as whole sequences, and `first` marks where each begins.
"""

import dataclasses
import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from safetensors import SafetensorError
from safetensors.numpy import load as parse

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Checkpoint, Window
from worldfork.lab.agents.rssm_cem.agent import RSSMCEM
from worldfork.lab.agents.rssm_cem.model.rssm import RSSM
from worldfork.lab.environments.base import Environment
from worldfork.ledger import arrays, files

SUFFIX: Final = ".npz"
COLUMNS: Final = ("observation", "action", "reward", "next_observation", "first")


def keep(path: Path, columns: Mapping[str, np.ndarray], *, source: str) -> dict[str, Any]:
    """Write transitions beside the checkpoint at `path`; returns what its manifest says of them."""
    stored = {name: np.asarray(columns[name], bool if name == "first" else np.float32) for name in COLUMNS}
    content = arrays.npz_bytes(stored, compress=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path.with_suffix(SUFFIX), content)
    return {
        "transitions": len(stored["reward"]),
        "digest": hashlib.sha256(content).hexdigest(),
        "source": source,
    }


def read(path: Path, manifest: Mapping[str, Any]) -> tuple[Window | None, str | None]:
    """The replay beside the checkpoint at `path`, with a leading axis of one, and its digest; None without one."""
    entry, beside = manifest.get("replay"), path.with_suffix(SUFFIX)
    if entry is None or not beside.exists():
        return None, None
    content = beside.read_bytes()
    if hashlib.sha256(content).hexdigest() != entry["digest"]:
        raise WorldforkError(
            f"{beside} is not the replay that its manifest describes (truncated or altered): fetch it again."
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        columns = {name: stored[name][None] for name in COLUMNS}
    return Window(**columns, size=np.array([columns["reward"].shape[1]])), entry["digest"]


SCHEMA = "worldfork.checkpoint/1"


def load(agent: RSSMCEM, environment: Environment, path: Path) -> Checkpoint:
    """A checkpoint for this agent in this task; anything wrong with it is said in one sentence."""
    manifest, arrays = read_arrays(path, task=environment.name, model=describe(agent.model))
    return restored(path, manifest, arrays, remark=_remark(agent, manifest, path))


def read_arrays(path: Path, *, task: str, model: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The manifest and the arrays of a checkpoint of this model, trained on this task in a world without drift."""
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


def restored(
    path: Path, manifest: Mapping[str, Any], arrays: Mapping[str, np.ndarray], *, remark: str
) -> Checkpoint:
    """Return the checkpoint that a manifest and arrays describe, with the replay that lies beside them."""
    replay, replay_digest = read(path, manifest)
    return Checkpoint(
        parameters=_group(arrays, "parameters"),
        optimiser=_group(arrays, "optimiser"),
        clean_return=manifest["returns"]["mean"],
        digest=manifest["digest"],
        remark=remark,
        replay=replay,
        replay_digest=replay_digest,
    )


def _remark(agent: RSSMCEM, manifest: Mapping[str, Any], path: Path) -> str:
    """Where the agent as registered is not the one that was trained and measured: what a reader should know."""
    update = {name: getattr(agent, name) for name in ("sequences", "length", "model_rate", "value_rate")}
    another = "`worldfork evaluate --adopt` measures it with this one"
    return remark_on(path, manifest, planner=dataclasses.asdict(agent.planner), update=update, another=another)


def remark_on(
    path: Path,
    manifest: Mapping[str, Any],
    *,
    planner: Mapping[str, Any],
    update: Mapping[str, Any],
    another: str = "",
) -> str:
    """Where the planner and the training that are registered are not those that the manifest says; `another` says
    what to do about the planner."""
    remarks = []
    if differing := _differing(manifest.get("planner", {}), planner):
        remarks.append(
            f"its clean return of {manifest['returns']['mean']:.1f} belongs to another planner ({differing})"
            + (f"; {another}" if another else "")
        )
    if differing := _differing(manifest.get("recipe", {}), update):
        remarks.append(f"it was pretrained otherwise than UPDATE will train it ({differing})")
    return f"{path.name}: {'; '.join(remarks)}." if remarks else ""


def _differing(stored: Mapping[str, Any], registered: Mapping[str, Any]) -> str:
    """`iterations 1, not 5`: the settings that both have and that are not the same."""
    names = (name for name in registered if name in stored and stored[name] != registered[name])
    return ", ".join(f"{name} {stored[name]}, not {registered[name]}" for name in names)


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest beside a checkpoint's arrays."""
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


def describe(model: RSSM) -> dict[str, Any]:
    """What of a model's settings its parameters depend on; precision is a matter of who runs it."""
    return {name: value for name, value in dataclasses.asdict(model).items() if name != "precision"}


def _group(arrays: Mapping[str, np.ndarray], kind: str) -> dict[str, Array]:
    """The arrays of one kind on the device, with a leading axis of one parameter set."""
    group = {name.removeprefix(f"{kind}/"): array for name, array in arrays.items() if name.startswith(f"{kind}/")}
    return {name: jnp.asarray(array)[None] for name, array in group.items()}
