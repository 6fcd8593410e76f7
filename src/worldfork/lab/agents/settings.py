"""From registered settings to an object: an unknown setting is answered with the known ones."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from worldfork.errors import WorldforkError

__all__ = ["configured"]

Configured = TypeVar("Configured")


def configured(kind: type[Configured], settings: Mapping[str, Any], **fixed: Any) -> Configured:
    """`kind(**settings, **fixed)` for a dataclass, where settings may name any field that is not fixed."""
    assert dataclasses.is_dataclass(kind)
    known = {field.name: field.type for field in dataclasses.fields(kind) if field.name not in fixed}
    if unknown := sorted(set(settings) - set(known)):
        raise WorldforkError(f"`{kind.__name__}` has no setting {unknown[0]!r}; it has {', '.join(sorted(known))}.")
    return kind(**settings, **fixed)
