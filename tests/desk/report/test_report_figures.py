"""The paper's figures: there, vector, the same twice, and safe whatever a table calls its tasks."""

import ledgers
import pytest

from worldfork.desk.report.figures import write_figures
from worldfork.desk.report.material import gather
from worldfork.errors import WorldforkError

FIGURES = ("figure1-ledger", "figure2-policies", "figure3-contraction")


def test_three_figures_per_arm_and_task_as_pdf_and_png(material, tmp_path):
    written = write_figures(material, tmp_path / "new" / "figures")
    assert len(written) == 3 * 3 * 2
    for path in written:
        start = path.read_bytes()[:8]
        assert start.startswith(b"%PDF") if path.suffix == ".pdf" else start == b"\x89PNG\r\n\x1a\n"
    assert {path.name.split("-n-")[0] for path in written} == set(FIGURES)


def test_the_same_ledger_gives_the_same_figures(tmp_path):
    material = gather(ledgers.flat(tmp_path / "t.parquet"), permutations=50)
    first, second = (write_figures(material, tmp_path / name) for name in ("one", "two"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


@pytest.mark.parametrize(
    "kind",
    [{"checkpoints": ("0",), "positive": False}, {"missing": 1.0, "k": 1}],
    ids=["one checkpoint, no positive fork", "no residual, one fork per cell"],
)
def test_awkward_ledgers_have_figures_too(tmp_path, kind):
    written = write_figures(gather(ledgers.flat(tmp_path / "t.parquet", **kind), permutations=50), tmp_path)
    assert len(written) == 6


def test_names_from_a_table_are_neither_paths_nor_mathematics(tmp_path):
    tasks = ("../../outside", "$\\frac")
    material = gather(ledgers.flat(tmp_path / "t.parquet", tasks=tasks, k=3), permutations=50)
    written = write_figures(material, tmp_path / "inside")
    assert len(set(written)) == len(tasks) * 6
    assert all(path.parent == tmp_path / "inside" for path in written)


def test_a_folder_that_can_not_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    material = gather(ledgers.flat(tmp_path / "t.parquet", k=2), permutations=50)
    with pytest.raises(WorldforkError, match="could not be written"):
        write_figures(material, tmp_path / "file" / "figures")
