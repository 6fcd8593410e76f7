"""The page of a study that is still running, served to this machine alone and made anew when rows arrive."""

import hashlib
import html
import http.server
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from worldfork.analysis.present.page.material import Material
from worldfork.analysis.present.page.page import render
from worldfork.errors import WorldforkError

HOST: Final = "127.0.0.1"
WAITING: Final = """<!doctype html><html lang="en" data-ready="waiting"><meta charset="utf-8">
<meta http-equiv="refresh" content="3"><title>waiting for the first fork</title>
<body style="font: 16px system-ui; margin: 15vh auto; max-width: 40em; color-scheme: light dark">
<h1>Waiting</h1><p>{}</p><p>This page looks again every three seconds.</p>"""


class Watched:
    """A ledger that may grow. `page` is made anew when the files have changed, and otherwise kept."""

    def __init__(self, path: Path, gather: Callable[[Path], Material]) -> None:
        self._path, self._gather = path, gather
        self._made: tuple[str, str] | None = None
        self._lock = threading.Lock()

    def version(self) -> str:
        """Return a word that changes whenever a row or an amendment is added."""
        names = ("registration.json", "amendments.jsonl", "looks.jsonl", "cells/*/forks.jsonl")
        paths = [self._path] if self._path.is_file() else [path for name in names for path in self._path.glob(name)]
        sizes = sorted((str(path.relative_to(self._path)), path.stat().st_size) for path in paths)
        return hashlib.sha256(repr(sizes).encode()).hexdigest()[:16]

    def page(self) -> str:
        """Return the page of what is there now. While a row is being written the page before it stands."""
        with self._lock:
            version = self.version()
            if self._made is None or self._made[0] != version:
                try:
                    self._made = (version, render(self._gather(self._path), version=version).html)
                except WorldforkError as error:
                    if self._made is None:
                        return WAITING.format(html.escape(str(error)))
            return self._made[1]


def server(watched: Watched, *, port: int) -> http.server.ThreadingHTTPServer:
    """Return a server on this machine's own address; port 0 takes any that is free."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # A page elsewhere can name this address as its own; such a request carries the other name.
            if self.headers.get("Host", "").rsplit(":", 1)[0] not in (HOST, "localhost"):
                self._answer(403, "text/plain", "This page is for this machine alone.\n")
            elif self.path == "/":
                self._answer(200, "text/html", watched.page())
            elif self.path == "/version":
                self._answer(200, "text/plain", watched.version())
            else:
                self._answer(404, "text/plain", "There are / and /version.\n")

        def _answer(self, status: int, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Silent: the terminal shows the address alone."""

    try:
        return http.server.ThreadingHTTPServer((HOST, port), Handler)
    except (OSError, OverflowError) as error:
        raise WorldforkError(
            f"Port {port} on {HOST} can not be used ({error}). Choose another with --port."
        ) from error
