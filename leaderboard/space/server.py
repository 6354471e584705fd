"""Serve a built site and, where wanted, check uploaded submissions.

An upload is data from anyone: it is bounded before it is read, kept in a folder of its own for as long as its check
takes, and parsed where every submission is, in a process with limits.
"""

from __future__ import annotations

import http.server
import json
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from kbench.loaders.storage.scratch import temporary_folder

Report = Mapping[str, Any]
Checker = Callable[[Path], Report]
"""Answers {"ok": …, "errors": […]} for an archive."""

ENDINGS = (".zip", ".tar.gz", ".tgz")
MOST_BYTES = 64 * 2**20
SECONDS = 60
"""How long a connection may say nothing."""
HIDDEN_FORM, SHOWN_FORM = b'<div data-check class="card" hidden>', b'<div data-check class="card">'


class SiteServer(http.server.ThreadingHTTPServer):
    """A site on one port."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], folder: Path, checker: Checker | None = None) -> None:
        """Bind the port.

        Args:
            address: host and port; port 0 takes a free one.
            folder: the built site.
            checker: checks uploads; without it there is no form and no upload is taken.
        """
        self.folder = folder
        self.checker = checker
        self.one_at_a_time = threading.Lock()
        super().__init__(address, _Handler)


class _Handler(http.server.SimpleHTTPRequestHandler):
    server: SiteServer
    timeout = SECONDS

    def __init__(self, request: Any, client_address: Any, server: SiteServer) -> None:
        super().__init__(request, client_address, server, directory=str(server.folder))

    def do_GET(self) -> None:
        """The site; its page with the form where there is a checker."""
        if self.server.checker is None or urllib.parse.urlsplit(self.path).path not in ("/", "/index.html"):
            super().do_GET()
            return
        page = (self.server.folder / "index.html").read_bytes().replace(HIDDEN_FORM, SHOWN_FORM)
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", page)

    def do_POST(self) -> None:
        """An upload to /check?name=FILE, answered as `kbench leaderboard check --json` would."""
        url = urllib.parse.urlsplit(self.path)
        if self.server.checker is None or url.path != "/check":
            self._refuse(HTTPStatus.NOT_FOUND, "this server checks nothing; run: kbench leaderboard check FILE")
            return
        name = urllib.parse.parse_qs(url.query).get("name", [""])[0].lower()
        ending = next((ending for ending in ENDINGS if name.endswith(ending)), None)
        length = self.headers.get("Content-Length", "")
        if ending is None:
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the file must end in {', '.join(ENDINGS)}")
        elif not length.isdecimal():
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "the upload does not say how long it is")
        elif int(length) > MOST_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the upload is larger than {MOST_BYTES // 2**20} MiB")
        else:
            self._check(self.rfile.read(int(length)), ending)

    def _check(self, content: bytes, ending: str) -> None:
        assert self.server.checker is not None
        with temporary_folder() as folder, self.server.one_at_a_time:
            path = folder / f"submission{ending}"
            path.write_bytes(content)
            report = self.server.checker(path)
        self._send(HTTPStatus.OK, "application/json", json.dumps(report).encode())

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self.close_connection = True
        report = {"ok": False, "errors": [{"message": reason}]}
        self._send(status, "application/json", json.dumps(report).encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Visitors are not logged."""
