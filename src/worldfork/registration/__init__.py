"""Registrations: the settings of a study, frozen and hashed before anything runs."""

from worldfork.registration.grid import Cell, cells, deployments, hold_owner, stream_owner
from worldfork.registration.reading import (
    Authored,
    authored,
    difference,
    open_authored,
    parse,
    read,
    read_authored,
    restore,
)
from worldfork.registration.schema import Arm, Registration, canonical, digest

__all__ = [
    "Arm",
    "Authored",
    "Cell",
    "Registration",
    "authored",
    "canonical",
    "cells",
    "deployments",
    "difference",
    "digest",
    "hold_owner",
    "open_authored",
    "parse",
    "read",
    "read_authored",
    "restore",
    "stream_owner",
]
