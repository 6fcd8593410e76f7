"""Worlds of one MuJoCo model that are stepped together, and MuJoCo without the work that nobody reads."""

import ctypes
import pathlib
from collections.abc import Mapping
from typing import Any, Final

import mujoco
import numpy as np
from jaxtyping import Bool, Float64, Int32
from mujoco.batch import Batch, SimulationError

from worldfork.errors import WorldforkError


def stop_clock() -> bool:
    """Take MuJoCo's clock away, and say whether it is gone; from then on its timers read zero in this process.

    MuJoCo asks its clock, the C variable `mjcb_time`, around every stage of every physics step; where there is none
    it does not ask. Its Python bindings install one and can not take it out: `mujoco.set_mjcb_time(None)` puts
    theirs back. So the variable itself is set to NULL.

    A clock that somebody has set with `mujoco.set_mjcb_time` is theirs and stays, and so does every clock where
    MuJoCo's library has another name than Linux's. No number depends on it.
    """
    library = pathlib.Path(mujoco.__file__).with_name(f"libmujoco.so.{mujoco.__version__}")
    if mujoco.get_mjcb_time() is not None or not library.is_file():
        return False
    try:
        # The library is loaded already: this finds it, and its variable.
        ctypes.c_void_p.in_dll(ctypes.CDLL(str(library)), "mjcb_time").value = None
    except (OSError, ValueError):
        return False
    return True


def skip_islands(model: Any) -> None:
    """Solve constraints together in a model of a single tree of bodies, which has nothing to solve apart.

    No bit depends on it; the search for parts takes a twentieth of a physics step.
    """
    if model.ntree == 1:
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ISLAND)


Fields = Mapping[str, Float64[np.ndarray, "n ..."]]
Warnings = Int32[np.ndarray, "n W"]  # how often, by MuJoCo's kinds of them

# Simulators kept per thread at most; a thread is busy from about 8.
PER_THREAD: Final = 128
STATE_FIELDS: Final = ("qpos", "qvel", "ctrl")
# What dm_control's step leaves behind: positions and velocities of the new state, forces of the last substep.
UP_TO_VELOCITY: Final = int(mujoco.mjtStage.mjSTAGE_VEL)
WHOLE_STATE: Final = int(mujoco.mjtState.mjSTATE_INTEGRATION)
COUNT: Final = 1  # a warning is a pair: last info, count
DRIFTING: Final = ("gravity", "friction")

stop_clock()


class Simulators:
    """A scratchpad of simulations of one model: `load` or `begin` overwrites what they were before.

    Once either was called, `rows` are the worlds' states, `fields` what tasks read, and `warnings` how often the
    simulator has warned. They are live: copy them before anything is stepped.
    """

    rows: Float64[np.ndarray, "n S"]
    fields: Fields
    warnings: Warnings

    def __init__(
        self, model: Any, *, derived: tuple[str, ...], substeps: int, parameter: str, threads: int
    ) -> None:
        if parameter not in DRIFTING:
            raise WorldforkError(f"A suite task drifts `gravity` or `friction`; got `parameter = {parameter!r}`.")
        self.state_size = int(mujoco.mj_stateSize(model, WHOLE_STATE))
        self._model = model
        self._derived = derived
        self._substeps = substeps
        self._parameter = parameter
        # Live: `model_at` shows it if somebody has changed the model.
        self._nominal = model.opt.gravity if parameter == "gravity" else model.geom_friction[:, 0]
        self._threads = threads
        self._capacity = 0
        self._size = 0

    def reserve(self, count: int) -> int:
        """Make room for `count` worlds, or for as many as may be stepped together, and return how many that is."""
        wanted = min(1 << max(count - 1, 0).bit_length(), PER_THREAD * self._threads)
        if wanted > self._capacity:
            self._capacity, self._size = wanted, 0
            self._batch = Batch(self._model, wanted, nthread=min(self._threads, wanted), persistent=True)
            self._outputs = {name: self._batch.bind(name) for name in (*STATE_FIELDS, *self._derived)}
            by_gravity = self._parameter == "gravity"
            expanded = self._batch.expand("opt.gravity" if by_gravity else "geom_friction")
            self._drifting = expanded if by_gravity else expanded[:, :, 0]  # of friction, the sliding one
        return self._capacity

    def load(
        self,
        rows: Float64[np.ndarray, "n S"],
        controls: Float64[np.ndarray, "n A"],
        factors: Float64[np.ndarray, " n"],
    ) -> None:
        """Put worlds in place, each with its own physics, and set the controls that hold from now on."""
        self._use(factors)
        self.rows[:] = rows
        self.fields["ctrl"][:] = controls

    def step(self) -> Warnings:
        """Take an environment step; returns `warnings`."""
        return self._run(self._batch.step, self._substeps, UP_TO_VELOCITY)

    def begin(
        self,
        positions: Float64[np.ndarray, "n q"],
        velocities: Float64[np.ndarray, "n v"],
        factors: Float64[np.ndarray, " n"],
        *,
        settling_steps: int,
    ) -> Bool[np.ndarray, " n"]:
        """Make initial states as dm_control does: reset, place, settle, forward; returns which are unstable."""
        self._use(factors)
        if settling_steps:
            self.rows[:] = self._first_settling_step(positions, factors)
            unstable = self._run(self._batch.step, settling_steps - 1).any(axis=1)
            self._batch.bind("time")[: self._size] = 0.0
        else:
            unstable = self._run(self._batch.reset).any(axis=1)
            self.fields["qpos"][:] = positions
            self.fields["qvel"][:] = velocities
        return np.asarray(unstable | self._run(self._batch.forward).any(axis=1))

    def model_at(self, factors: Float64[np.ndarray, "1"]) -> Any:
        """Return the model that a simulator runs on, read back from it once its physics is set."""
        self.reserve(1)
        self._use(factors)
        return self._batch.get_model(0)

    def _use(self, factors: Float64[np.ndarray, " n"]) -> None:
        """Take the first n simulators, with physics multiplied by `factors`."""
        if len(factors) != self._size:
            self._view(len(factors))
        self.warnings[:] = 0
        self._factored[:] = self._nominal * factors[:, None]

    def _view(self, size: int) -> None:
        """Take hold of the arrays of the first `size` simulators, which are used call after call."""
        self._size = size
        self._ids = None if size == self._capacity else np.arange(size, dtype=np.int32)
        self.rows, self._factored = self._batch.state[:size], self._drifting[:size]
        self.warnings = self._batch.warning[:size, :, COUNT]
        self.fields = {name: values[:size] for name, values in self._outputs.items()}

    def _run(self, advance: Any, *arguments: int) -> Warnings:
        """Advance the worlds. Where the simulator raises an error, a world keeps its state and counts as warned."""
        try:
            advance(self._ids, *arguments)
        except SimulationError:
            self.warnings[self._batch.status[: self._size] != 0] += 1
        return self.warnings

    def _first_settling_step(
        self, positions: Float64[np.ndarray, "n q"], factors: Float64[np.ndarray, " n"]
    ) -> Float64[np.ndarray, "n S"]:
        """Take the first step after placing the joints, with the forces of the pose before it, as dm_control does.

        Batch has no such half step, so it is taken one world at a time; it is the cheap one of the settling steps.
        """
        rows = np.empty((self._size, self.state_size))
        data = mujoco.MjData(self._model)
        model = self._batch.get_model(0)
        for row, position, multiplier in zip(rows, positions, factors, strict=True):
            if self._parameter == "gravity":
                model.opt.gravity[:] = self._nominal * multiplier
            else:
                model.geom_friction[:, 0] = self._nominal * multiplier
            mujoco.mj_resetData(model, data)
            mujoco.mj_forward(model, data)
            data.qpos[:] = position
            mujoco.mj_step2(model, data)
            mujoco.mj_getState(model, data, row, WHOLE_STATE)
        return rows
