"""Hub servers that misbehave. Usage: hubs.py OUT.json

`kbench data pull` is run against each. It must end in time with one line and no traceback, and leave no folder behind.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SHA = "0" * 40
LIMIT_S = 120


def info(**change: object) -> bytes:
    """What the Hub says of a repository."""
    said = {"id": "user/name", "sha": SHA, "siblings": [{"rfilename": "manifest.json"}]}
    return json.dumps(said | change).encode()


def listing(*names: object) -> bytes:
    """A repository with these files."""
    return info(siblings=[{"rfilename": name} for name in names])


Answer = tuple[int, bytes]
API: dict[str, Answer] = {
    "HTML with status 200": (200, b"<html>Sign in</html>"),
    "nothing": (200, b""),
    "null": (200, b"null"),
    "a list": (200, b"[]"),
    "a number": (200, b"5"),
    "half of it": (200, info()[:20]),
    "not UTF-8": (200, b"\xff\xfe{}"),
    "brackets": (200, b"[" * 100_000),
    "no commit": (200, info(sha=None)),
    "a commit that is none": (200, info(sha="../../etc")),
    "a commit that is a number": (200, info(sha=7)),
    "files are text": (200, info(siblings="all")),
    "files are numbers": (200, info(siblings=[1, 2])),
    "a file without a name": (200, info(siblings=[{}])),
    "a name that leaves the folder": (200, listing("../../../x")),
    "a name from the root": (200, listing("/etc/passwd")),
    "a name with an escape": (200, listing("\x1b[2J")),
    "a name with a line break": (200, listing("a\nb")),
    "a name that is a number": (200, listing(3)),
    "a name of 5,000 letters": (200, listing("x" * 5000)),
    "401": (401, b""),
    "403 in HTML": (403, b"<html>"),
    "404": (404, b""),
    "418": (418, b"{}"),
    "no manifest": (200, listing("README.md")),
    "a manifest in HTML": (200, info()),
    "the connection closes": (0, b""),
    "silence": (1, b""),
    "a byte now and then": (2, info()),
}


def serve(mode: str) -> ThreadingHTTPServer:
    """A Hub of this mode."""
    status, body = API[mode]

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            if status == 0:
                self.close_connection = True
            elif status == 1:
                time.sleep(60)
            elif self.path.startswith("/api/"):
                self._send(200 if status == 2 else status, body, slowly=status == 2)
            else:
                self._send(200, b"<html>no file</html>", slowly=False)

        do_GET = do_HEAD = do_POST = _answer  # noqa: N815 - the names the library calls

        def _send(self, code: int, data: bytes, slowly: bool) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("ETag", '"1234"')
            self.send_header("X-Repo-Commit", SHA)
            self.end_headers()
            try:
                for at in range(0, len(data) if self.command != "HEAD" else 0, 1 if slowly else len(data) or 1):
                    self.wfile.write(data[at : at + (1 if slowly else len(data))])
                    time.sleep(0.5 if slowly else 0)
            except OSError:
                return

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def try_mode(mode: str, work: Path) -> dict[str, object]:
    """Pull from a Hub of this mode; what came of it."""
    server = serve(mode)
    environment = os.environ | {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HOME": str(work / "hf"), "NO_PROXY": "*",
        "KBENCH_HOME": str(work / "home"), "KBENCH_HUB_TIMEOUT_S": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "kbench", "data", "pull", "user/name", "--out", str(work / "out")]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        lines = [line for line in done.stderr.splitlines() if line.startswith("kbench:")]
        good = done.returncode in (1, 2) and len(lines) == 1 and "Traceback" not in done.stderr
        said = lines[0][:200] if lines else done.stderr[-200:]
    except subprocess.TimeoutExpired:
        good, said = False, f"no end within {LIMIT_S} s"
    server.shutdown()
    server.server_close()
    return {"mode": mode, "good": good and not (work / "out").exists(), "said": said}


def main() -> None:
    """Try every mode."""
    found = []
    for mode in API:
        with tempfile.TemporaryDirectory() as work:
            found.append(try_mode(mode, Path(work)))
        sys.stderr.write(f"{found[-1]}\n")
        wrong = [row for row in found if not row["good"]]
        Path(sys.argv[1]).write_text(json.dumps({"modes": len(found), "wrong": wrong, "rows": found}, indent=1) + "\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
