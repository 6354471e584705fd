"""Serve a built site and, where wanted, check uploaded submissions: `kbench leaderboard serve`, and the Hub's Space.

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

from kbench.leaderboard.site.shards import CHECK_SHARD, shard
from kbench.loaders.storage.scratch import temporary_folder

Checker = Callable[[Path], Mapping[str, Any]]
"""Answers {"ok": …, "errors": […]} for an archive."""

ENDINGS = (".zip", ".tar.gz", ".tgz")
MOST_BYTES = 64 * 2**20
SECONDS = 60
"""How long a connection may say nothing."""


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

    def check_upload(self, content: bytes, ending: str) -> Mapping[str, Any]:
        """Check an archive; checks wait for each other, so that many uploads take no more memory than one."""
        assert self.checker is not None
        with temporary_folder() as folder, self.one_at_a_time:
            path = folder / f"submission{ending}"
            path.write_bytes(content)
            return self.checker(path)


class _Handler(http.server.SimpleHTTPRequestHandler):
    server: SiteServer
    timeout = SECONDS

    def __init__(self, request: Any, client_address: Any, server: SiteServer) -> None:
        super().__init__(request, client_address, server, directory=str(server.folder))

    def do_GET(self) -> None:
        """A file of the site. The one that tells the page whether to show its form is answered here."""
        if self.server.checker is not None and urllib.parse.urlsplit(self.path).path == f"/data/{CHECK_SHARD}.js":
            self._send(HTTPStatus.OK, "text/javascript", shard(CHECK_SHARD, True))
        else:
            super().do_GET()

    def do_POST(self) -> None:
        """An upload to /check?name=FILE, answered as `kbench leaderboard check --json` would."""
        url = urllib.parse.urlsplit(self.path)
        name = urllib.parse.parse_qs(url.query).get("name", [""])[0].lower()
        ending = next((ending for ending in ENDINGS if name.endswith(ending)), None)
        length = self.headers.get("Content-Length", "")
        if self.server.checker is None or url.path != "/check":
            self._refuse(HTTPStatus.NOT_FOUND, "this server checks nothing; run: kbench leaderboard check FILE")
        elif ending is None:
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the file must end in {', '.join(ENDINGS)}")
        elif not length.isdecimal():
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "the upload does not say how long it is")
        elif int(length) > MOST_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the upload is larger than {MOST_BYTES // 2**20} MiB")
        else:
            report = self.server.check_upload(self.rfile.read(int(length)), ending)
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
