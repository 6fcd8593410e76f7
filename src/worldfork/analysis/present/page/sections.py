"""The sections of the page, in their order. A new one is a template, perhaps a script, and one line here.

A section is `files/NAME.html`, which prints <section id="NAME">. One that reacts to the reader is also
`files/NAME.js`, which calls `section("NAME-body", [choices it depends on], draw)`. Evidence and triggers are about
the task and arm that the chooser above them names.
"""

import dataclasses
from collections.abc import Callable
from typing import Final

from worldfork.analysis.present.page.material import Material
from worldfork.analysis.present.page.videos import videos

PER_PART: Final = ("Evidence", "Triggers")  # groups about one task and arm


@dataclasses.dataclass(frozen=True)
class Section:
    """A section: its file, its name for readers, and the group of the navigation that it belongs to."""

    name: str
    title: str
    group: str
    script: bool = False
    when: Callable[[Material], bool] = lambda material: True


def _predicted(material: Material) -> bool:
    return any(score.predictions for arm in material.score.arms.values() for score in arm.tasks.values())


SECTIONS: Final = (
    Section("answer", "Verdict", "Answer"),
    Section("predictions", "Predictions", "Answer", when=_predicted),
    Section("deployment", "Episode by episode", "Answer", when=lambda material: bool(material.score.deployment)),
    Section("compare", "Side by side", "Answer"),
    Section("pays", "What would pay", "Evidence"),
    Section("evidence", "Map of forks", "Evidence", script=True),
    Section("contraction", "How far the model had fallen", "Evidence", script=True),
    Section("stream", "A stream", "Evidence", script=True),
    Section("forks", "List of forks", "Evidence", script=True),
    Section("watch", "Videos", "Evidence", when=lambda material: bool(videos(material))),
    Section("policies", "What each rule earns", "Triggers"),
    Section("threshold", "A threshold to drag", "Triggers", script=True),
    Section("record", "How it was made", "Record"),
    Section("tables", "All tables", "Record"),
    Section("words", "Words", "Record"),
)


def grouped(material: Material) -> dict[str, list[Section]]:
    """Return the sections that this ledger has something to say in, by group."""
    groups: dict[str, list[Section]] = {}
    for section in SECTIONS:
        if section.when(material):
            groups.setdefault(section.group, []).append(section)
    return groups


def scripts() -> list[str]:
    """Return the scripts of all sections."""
    return [f"{section.name}.js" for section in SECTIONS if section.script]
