"""In CI a browser or a renderer that is missing is a failure; elsewhere its tests are skipped."""

import headless
import pytest
import rendered

RENDERER = "There is no renderer on this machine"


@pytest.mark.parametrize(
    ("required", "outcome"),
    [("", pytest.skip.Exception), ("0", pytest.skip.Exception), ("1", pytest.fail.Exception)],
)
def test_what_is_missing_is_named(
    required: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLDFORK_REQUIRE_GRAPHICS", required)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(rendered, "missing", lambda: RENDERER)
    with pytest.raises(outcome, match=r"no browser: none of chromium, .* apt-get install chromium"):
        headless.need()
    with pytest.raises(outcome, match=RENDERER):
        rendered.need_renderer()


def test_what_is_there_is_no_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLDFORK_REQUIRE_GRAPHICS", "1")
    monkeypatch.setattr(headless, "find", lambda: "/usr/bin/chromium")
    monkeypatch.setattr(rendered, "missing", lambda: None)
    headless.need()
    rendered.need_renderer()
