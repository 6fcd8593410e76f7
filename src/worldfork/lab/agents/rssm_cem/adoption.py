"""Another planner for finished checkpoints: gated and evaluated anew, as if they had been harvested with it.

A checkpoint's clean return belongs to the search it was measured with, and triggers read it. What was measured
before stays in the manifest: readers must see what was chosen among.
"""

import dataclasses

import numpy as np
from jaxtyping import Float64

from worldfork.errors import WorldforkError
from worldfork.lab.agents.rssm_cem import checkpoints
from worldfork.lab.agents.rssm_cem.deployment import Deployed
from worldfork.lab.agents.rssm_cem.pretraining.recipe import restore_recipe
from worldfork.lab.agents.rssm_cem.writing import rewrite
from worldfork.registration.library import BUNDLED

__all__ = ["adopt"]


def adopt(deployed: Deployed) -> Float64[np.ndarray, "P E"]:
    """Put the deployed planner and its clean returns into the manifests; refuses all if one falls at the gate."""
    paths = deployed.paths
    if any(path.parent == BUNDLED for path in paths):
        raise WorldforkError("Checkpoints that come with worldfork stay as they are: copy them first.")
    manifests = [checkpoints.read_manifest(path) for path in paths]
    recipes = [
        restore_recipe(manifest["recipe"], name=f"The recipe of {path}")
        for path, manifest in zip(paths, manifests, strict=True)
    ]
    gate = deployed.returns("gate", episodes=max(recipe.gate_episodes for recipe in recipes))
    returns = deployed.returns("report", episodes=max(recipe.report_episodes for recipe in recipes))
    for path, recipe, gated in zip(paths, recipes, gate, strict=True):
        if gated.mean() < (floor := recipe.tasks[deployed.environment.name].floor):
            raise WorldforkError(
                f"With this planner {path.name} returns {gated.mean():.1f} at the gate, below its floor of "
                f"{floor}: no manifest was changed."
            )
    for path, manifest, gated, reported in zip(paths, manifests, gate, returns, strict=True):
        earlier = {"planner": manifest["planner"], "returns": manifest["returns"]}
        rewrite(
            path,
            {
                **manifest,
                "planner": dataclasses.asdict(deployed.agent.planner),
                "returns": {
                    "mean": float(reported.mean()),
                    "episodes": reported.tolist(),
                    "gate": gated.tolist(),
                    "precision": deployed.agent.imagined.precision,
                },
                "earlier_planners": [*manifest.get("earlier_planners", []), earlier],
            },
        )
    return returns
