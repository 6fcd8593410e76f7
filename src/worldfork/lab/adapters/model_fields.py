"""Physical parameters of a MuJoCo model by name: `opt.gravity[2]`, `geom_friction[:, 0]`, `body_mass["torso"]`.

A name is read by a small grammar, never evaluated: a field of the model or of its options, and in brackets whole
numbers, slices, `...`, or the name of a body, geom, joint, actuator and so on in double quotes.
"""

import copy
import dataclasses
import difflib
import re
from collections.abc import Mapping
from typing import Any, Final

import mujoco
import numpy as np
from jaxtyping import Float64

from worldfork.errors import WorldforkError

FIELD: Final = re.compile(r"(opt\.)?([a-z][a-z0-9_]*)(?:\[(.*)\])?")
SLICE: Final = re.compile(r"(-?\d+)?:(-?\d+)?(?::(-?\d+))?")
# The method of a model that finds the owner of a field's entries by name.
NAMED: Final = {
    "body": "body",
    "geom": "geom",
    "jnt": "joint",
    "dof": "joint",
    "site": "site",
    "actuator": "actuator",
    "tendon": "tendon",
}
EXAMPLES: Final = 'such as "opt.gravity[2]", "geom_friction[:, 0]", "body_mass[1:]" or "actuator_gainprm[..., 0]"'
TRIAL: Final = 1.25  # a factor that shows what depends on a field


@dataclasses.dataclass(frozen=True)
class Field:
    """A parameter of a model: its field, and which of the field's entries are meant."""

    text: str
    part: str  # of the model: "opt" or ""
    name: str
    index: tuple[Any, ...]

    def read(self, model: Any) -> Float64[np.ndarray, "..."]:
        """Return the entries that are meant, as a copy."""
        return np.array(np.asarray(getattr(_owner(model, self.part), self.name), np.float64)[self.index])

    def write(self, model: Any, values: Any) -> None:
        """Set them."""
        owner = _owner(model, self.part)
        if isinstance(held := getattr(owner, self.name), np.ndarray):
            held[self.index] = values
        else:
            setattr(owner, self.name, float(values))


def parse_field(text: str, model: Any) -> Field:
    """Return the parameter that `text` names in this model; an error says what would do instead."""
    matched = FIELD.fullmatch(text.strip())
    if matched is None:
        raise WorldforkError(f"`{text}` is not the name of a model field, {EXAMPLES}.")
    part, name, brackets = "opt" if matched[1] else "", matched[2], matched[3]
    owner = _owner(model, part)
    value: Any = getattr(owner, name, None)
    if not isinstance(value, float) and not (isinstance(value, np.ndarray) and value.dtype.kind == "f"):
        names = [name for name in dir(owner) if isinstance(getattr(owner, name), float | np.ndarray)]
        near = difflib.get_close_matches(name, names, n=5)
        advice = f" Near it: {', '.join(near)}." if near else ""
        raise WorldforkError(f"`{text}`: the model has no physical field `{name}`, {EXAMPLES}.{advice}")
    index = tuple(_item(item.strip(), name, model, text) for item in brackets.split(",")) if brackets else ()
    field = Field(text, part, name, index)
    try:
        entries = field.read(model)
    except IndexError as error:
        raise WorldforkError(f"`{text}`: `{name}` has the shape {np.shape(value)}, so {error}.") from error
    if entries.size == 0 or not entries.any():
        problem = "no entries" if entries.size == 0 else "only zeros, which no factor changes"
        raise WorldforkError(f"`{text}` selects {problem}: `{name}` has the shape {np.shape(value)}.")
    return field


class DriftingFields:
    """The fields of one model that drift, each by its share of the drift; nominal is what they hold at first."""

    def __init__(self, model: Any, shares: Mapping[str, float]) -> None:
        self.factor = 1.0  # that the fields are multiplied by now
        self._model = model
        self._fields = [(parse_field(text, model), share) for text, share in shares.items()]
        self._nominal = [field.read(model) for field, _ in self._fields]
        self._scratch = mujoco.MjData(model)
        self._compiled = self._dependent_constants()

    def of(self, model: Any) -> "DriftingFields":
        """Return the same fields of a copy of the model."""
        other = copy.copy(self)
        other._model, other._scratch = model, mujoco.MjData(model)
        return other

    def set_factor(self, factor: float) -> None:
        """Multiply every field by `factor`, as far as its share goes, and recompute what the model derives."""
        if factor == self.factor:
            return
        self.factor = factor
        self.write()
        if self._compiled and factor == 1.0:  # exactly the model that was compiled
            _put(self._model, self._compiled)
        elif self._compiled:
            mujoco.mj_setConst(self._model, self._scratch)

    def write(self) -> None:
        """Write the fields at the present factor into the model."""
        for (field, share), nominal in zip(self._fields, self._nominal, strict=True):
            moved = self.factor if share == 1.0 else 1.0 + share * (self.factor - 1.0)
            field.write(self._model, np.asarray(nominal * moved))

    def values(self) -> dict[str, float]:
        """Return every entry by name."""
        return {
            f"{field.text}" + (f".{place}" if entries.size > 1 else ""): float(entry)
            for field, _ in self._fields
            for entries in [field.read(self._model)]
            for place, entry in enumerate(entries.reshape(-1))
        }

    def _dependent_constants(self) -> dict[tuple[str, str], Any]:
        """Return what MuJoCo derives from these fields as it compiles a model, as it does from masses.

        Found by trying: recomputed at the nominal values and at others, constants differ or they do not.
        """
        compiled = model_numbers(self._model)
        mujoco.mj_setConst(self._model, self._scratch)
        before = model_numbers(self._model)
        self.factor = TRIAL
        self.write()
        mujoco.mj_setConst(self._model, self._scratch)
        after = model_numbers(self._model)
        self.factor = 1.0
        _put(self._model, compiled)
        drifting = {(field.part, field.name) for field, _ in self._fields}
        changed = [key for key in before if key not in drifting and not np.array_equal(before[key], after[key])]
        return {key: compiled[key] for key in changed}


def model_numbers(model: Any) -> dict[tuple[str, str], Any]:
    """Return copies of every floating-point number that physics may read, by (part of the model, field)."""
    found: dict[tuple[str, str], Any] = {}
    for part in ("", "opt", "stat"):
        owner = _owner(model, part)
        for name in dir(owner):
            value = None if name.startswith(("_", "tex_", "mesh_")) else getattr(owner, name)
            if isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind == "f"):
                found[part, name] = np.array(value)
    return found


def _owner(model: Any, part: str) -> Any:
    return getattr(model, part) if part else model


def _put(model: Any, numbers: Mapping[tuple[str, str], Any]) -> None:
    """Write some of the model's numbers back."""
    for (part, name), value in numbers.items():
        Field("", part, name, (...,)).write(model, value)


def _item(part: str, name: str, model: Any, text: str) -> Any:
    """Return the index that one part within the brackets stands for."""
    if part == "...":
        return Ellipsis
    if re.fullmatch(r"-?\d+", part):
        return int(part)
    if sliced := SLICE.fullmatch(part):
        return slice(*(int(number) if number else None for number in sliced.groups()))
    if quoted := re.fullmatch(r'"([^"]+)"', part):
        owner = name.split("_")[0]
        if owner not in NAMED:
            raise WorldforkError(f"`{text}`: entries of `{name}` have no names: write a number or a slice.")
        try:
            number = getattr(model, NAMED[owner])(quoted[1]).id
        except KeyError as error:
            raise WorldforkError(
                f"`{text}`: nothing that `{name}` belongs to has that name. {error.args[0]}"
            ) from error
        if owner == "dof":  # a joint has one degree of freedom or more
            return np.flatnonzero(model.dof_jntid == number)
        return number
    raise WorldforkError(f"`{text}`: {part!r} is not an index. Write a number, a slice, `...` or a name in quotes.")
