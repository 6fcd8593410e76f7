"""Words that tables, screen and page use."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

# Definitions by word, from the file beside this one.
TERMS: Final[Mapping[str, str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

# What a useful trigger has to beat, in words.
BEATEN: Final[Mapping[str, str]] = {
    "random": "chance",
    "random_shift": "chance shifted in time",
    "swapped": "the fires of other checkpoints",
    "better_of_both": "the better of never and always",
    "position_table": "a fixed timetable (the position table)",
}
