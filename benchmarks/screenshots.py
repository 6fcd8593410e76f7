"""Pictures of a page as readers meet it: the first screen and every section, at three widths, light and dark.

    worldfork report results/corrected -o corrected.html
    python benchmarks/screenshots.py corrected.html -o pictures
    python benchmarks/screenshots.py corrected.html -o pictures --width 390 --theme dark

A page is looked at, not only tested: what is cut, struck through or unexplained shows here. A tall section is cut
into several files. Needs a Chromium on PATH, as the browser tests do.
"""

import argparse
import math
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / name) for name in ("analysis/page", "")]

import headless  # noqa: E402  (the tests' own driver: no package, no port, no download)

WIDTHS = (1600, 1280, 390)
THEMES = ("light", "dark")
HEIGHTS = {390: 844}  # of the window: a phone's; every other one is 900 high
PIECE = 1400  # the tallest picture

SECTIONS = """[...document.querySelectorAll("main section")].filter((one) => one.offsetParent).map((one) => {
  const box = one.getBoundingClientRect();
  return { name: one.id, top: box.top + scrollY, height: box.height };
})"""


def photograph(page: Path, folder: Path, *, width: int, theme: str, browser: headless.Browser) -> list[Path]:
    """The first screen and every section of one page, in this width and theme."""
    height = HEIGHTS.get(width, 900)
    shown = browser.open(page.resolve().as_uri(), width=width, height=height, dark=theme == "dark")
    shown.settle()
    stem = folder / f"{page.stem}-{width}-{theme}"
    first = stem.with_name(f"{stem.name}-first.png")
    shown.screenshot(first, whole=False)
    pictures = [first]
    # The head and the chooser follow the reader; in a picture of a whole section they would cover it.
    shown.evaluate("document.querySelectorAll('.top, .chooser').forEach(one => (one.style.position = 'static'))")
    shown.settle()
    for place, section in enumerate(shown.evaluate(SECTIONS)):
        count = max(1, math.ceil(section["height"] / PIECE))
        for piece in range(count):
            path = stem.with_name(
                f"{stem.name}-{place:02d}-{section['name']}{f'-{piece + 1}' if count > 1 else ''}.png"
            )
            top = section["top"] + piece * PIECE
            clip = {
                "x": 0,
                "y": top,
                "width": width,
                "height": min(PIECE, section["top"] + section["height"] - top),
            }
            shown.screenshot(path, clip=clip)
            pictures.append(path)
    complaints = shown.complaints()
    shown.close()
    if complaints:
        raise SystemExit(f"{page} at {width} px complains: {complaints}")
    return pictures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True, help="the folder for the pictures")
    parser.add_argument("--width", type=int, action="append", help=f"in pixels; by default {WIDTHS}")
    parser.add_argument("--theme", choices=THEMES, action="append", help="by default both")
    given = parser.parse_args()
    if headless.find() is None:
        raise SystemExit(f"No browser: none of {', '.join(headless.NAMES)} is on PATH.")
    given.output.mkdir(parents=True, exist_ok=True)
    with headless.Browser() as browser:
        for page in given.pages:
            for width in given.width or WIDTHS:
                for theme in given.theme or THEMES:
                    pictures = photograph(page, given.output, width=width, theme=theme, browser=browser)
                    print(f"{page.name} at {width} px, {theme}: {len(pictures)} pictures", flush=True)


if __name__ == "__main__":
    main()
