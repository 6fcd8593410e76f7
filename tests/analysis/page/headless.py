"""A headless Chromium over its DevTools pipe: no driver, no port, no download.

with Browser() as browser:
    page = browser.open(path.as_uri(), width=1280)
    page.evaluate("document.title")
"""

import base64
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rendered import unavailable
from waiting import until

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# Chromium reads commands from descriptor 3 and answers on 4.
LAUNCH = "import os,sys; r,w,*c=sys.argv[1:]; os.dup2(int(r),3); os.dup2(int(w),4); os.execv(c[0],c)"


def find() -> str | None:
    """Whichever Chromium is on PATH."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def need() -> None:
    """Skip the test where there is no browser; fail it where graphics are required."""
    if find() is None:
        unavailable(f"no browser: none of {', '.join(NAMES)} is on PATH (Debian: apt-get install chromium)")


class Browser(contextlib.AbstractContextManager):
    """One browser with an empty profile; it goes when the context ends."""

    def __enter__(self):
        executable = find()
        assert executable is not None
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (child_reads, self._out), (self._in, child_writes) = _high_pipe(), _high_pipe()
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-c", LAUNCH, str(child_reads), str(child_writes)),
                *(executable, *FLAGS, f"--user-data-dir={self.profile.name}", "about:blank"),
            ],
            pass_fds=(child_reads, child_writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(child_reads)
        os.close(child_writes)
        self._number, self._buffer, self.events = 0, b"", []
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.send("Browser.close")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:  # nothing depends on how it ends
            self.process.kill()
        os.close(self._in)
        os.close(self._out)
        self.profile.cleanup()

    def send(self, method, params=None, session=None):
        """One command and its result; events that arrive meanwhile are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params or {}}
        os.write(self._out, json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, address, *, width=1280, height=900, dark=False, wait=True):
        """A new page at `address`; with `wait`, once it has drawn itself."""
        target = self.send("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.send("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = Page(self, target, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.send(f"{domain}.enable")
        page.send("Emulation.setFocusEmulationEnabled", {"enabled": True})  # also while another tab is in front
        page.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.send("Emulation.setEmulatedMedia", {"features": [scheme]})
        page.send("Page.navigate", {"url": address})
        page.wait(
            "document.querySelector('html[data-ready]') !== null" if wait else "document.readyState === 'complete'"
        )
        return page

    def _receive(self):
        while b"\0" not in self._buffer:
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise OSError("the browser has gone")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)


class Page:
    """One tab."""

    def __init__(self, browser, target, session):
        self.browser, self.target, self.session = browser, target, session

    def send(self, method, params=None):
        return self.browser.send(method, params, self.session)

    def close(self):
        self.browser.send("Target.closeTarget", {"targetId": self.target})

    def frames(self):
        """The frames inside this page that run by themselves, each as a page; waits until there are any."""
        until(self._framed, lambda: f"a frame in {self.target}")
        targets = self.browser.send("Target.getTargets")["targetInfos"]
        found = []
        for one in targets:
            if one["type"] == "iframe":
                options = {"targetId": one["targetId"], "flatten": True}
                frame = Page(
                    self.browser, one["targetId"], self.browser.send("Target.attachToTarget", options)["sessionId"]
                )
                for domain in ("Runtime", "Log"):
                    frame.send(f"{domain}.enable")
                found.append(frame)
        return found

    def _framed(self):
        return any(one["type"] == "iframe" for one in self.browser.send("Target.getTargets")["targetInfos"])

    def resize(self, width, height):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", size)

    def evaluate(self, expression):
        """The value of an expression in the page; an exception there is one here."""
        found = self.send(
            "Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True}
        )
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"])
        return found["result"].get("value")

    def wait(self, expression):
        until(lambda: self._holds(expression), lambda: f"{expression}\n{self.complaints()}")

    def _holds(self, expression):
        try:
            return self.evaluate(expression)
        except RuntimeError:  # the page is being loaded anew
            return False

    def settle(self):
        """Two frames: what was asked for is drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def mouse(self, kind, x, y, *, pressed=False):
        self.send(
            "Input.dispatchMouseEvent",
            {"type": kind, "x": x, "y": y, "button": "left", "buttons": int(pressed), "clickCount": 1},
        )

    def press(self, key):
        """Press and release a key; returns once the page has seen it released."""
        codes = {
            "Tab": 9,
            "Enter": 13,
            "Escape": 27,
            "ArrowLeft": 37,
            "ArrowUp": 38,
            "ArrowRight": 39,
            "ArrowDown": 40,
        }
        typed = {"text": "\r"} if key == "Enter" else {}  # a button is pressed by the character, not by the key
        released = "{ capture: true, once: true }"
        self.evaluate(
            f"window.released = false; addEventListener('keyup', () => {{ window.released = true; }}, {released})"
        )
        for kind in ("keyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent",
                {"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": codes[key], **typed},
            )
        self.wait("window.released !== false")  # another page, which a key may have led to, knows nothing of it

    def complaints(self):
        """Whatever the page reported as an error or a warning, exceptions included."""
        self.evaluate("1")
        mine = [event for event in self.browser.events if event.get("sessionId") == self.session]
        return [
            json.dumps(event["params"])
            for event in mine
            if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")
            or (event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] in ("error", "warning"))
        ]

    def requests(self):
        """The address of everything the page asked for."""
        self.evaluate("1")
        return [
            event["params"]["request"]["url"]
            for event in self.browser.events
            if event.get("sessionId") == self.session and event["method"] == "Network.requestWillBeSent"
        ]

    def screenshot(self, path: Path, *, whole=True, clip=None):
        """The whole page, the window, or the rectangle `clip` of the page."""
        self.settle()
        wanted = {"format": "png", "captureBeyondViewport": whole}
        taken = self.send("Page.captureScreenshot", wanted | ({"clip": clip | {"scale": 1}} if clip else {}))
        path.write_bytes(base64.b64decode(taken["data"]))


def _high_pipe():
    """A pipe whose ends lie above the descriptors that the browser claims."""
    ends = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in ends)
    for end in ends:
        os.close(end)
    return high
