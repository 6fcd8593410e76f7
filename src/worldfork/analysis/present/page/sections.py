"""The sections of the page, in their order. A new one is a template, perhaps a script, and one line here.

A section is `files/NAME.html`, which prints <section id="NAME">. One that reacts to the reader is also
`files/NAME.js`, which calls `section("NAME-body", [choices it depends on], draw)`. Sections of one task and arm
stand below the chooser. The template has what `data` returns as `section_data.NAME`; for a section with a script it
is embedded too, as `ledger.sections.NAME`.
"""

import dataclasses
from collections.abc import Callable
from typing import Final

from worldfork.analysis.present.page.deployments import deployment_section, followed
from worldfork.analysis.present.page.material import Material
from worldfork.analysis.present.page.videos import videos

__all__ = ["SECTIONS", "Section", "shown"]


def _always(material: Material) -> bool:
    return True


def _predicted(material: Material) -> bool:
    return any(score.predictions for arm in material.score.arms.values() for score in arm.tasks.values())


def _severe(material: Material) -> bool:
    return any(
        isinstance(score.severity, tuple) for arm in material.score.arms.values() for score in arm.tasks.values()
    )


def _filmed(material: Material) -> bool:
    return bool(videos(material))


@dataclasses.dataclass(frozen=True)
class Section:
    """One section: its name, what the navigation calls it, and where it stands."""

    name: str
    title: str
    per_part: bool = False  # about one task and arm, which the chooser above it names
    script: bool = False
    when: Callable[[Material], bool] = _always
    data: Callable[[Material], object] | None = None


SECTIONS: Final = (
    Section("answer", "Answer"),
    Section("deployment", "Followed", when=followed, data=deployment_section),
    Section("evidence", "Evidence", per_part=True, script=True),
    Section("forks", "Forks", per_part=True, script=True),
    Section("stream", "Stream", per_part=True, script=True),
    Section("threshold", "Threshold", per_part=True, script=True),
    Section("policies", "Policies", per_part=True),
    Section("contraction", "Contraction", per_part=True, script=True),
    Section("severity", "Severity", per_part=True, when=_severe),
    Section("watch", "Watch", when=_filmed),
    Section("predictions", "Predictions", when=_predicted),
    Section("compare", "Compare"),
    Section("record", "Record"),
    Section("words", "Words"),
)


def shown(material: Material) -> list[Section]:
    """The sections that this ledger has something to say in."""
    return [section for section in SECTIONS if section.when(material)]
