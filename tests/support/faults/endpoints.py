"""What a language model's server can send, and what becomes of it. Usage: endpoints.py OUT.json

Each mode is a server that misbehaves in one way for every fourth request and answers the others well. `kbench evaluate`
must end without a traceback, keep every good answer, and fail the odd ones alone; a second run with a well-behaved
server must ask for exactly those. No file may hold the key, in any spelling, and nobody but the server may be asked.
"""

import base64
import gzip
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

QUERIES = 24
KEY = "sk-proj-4Yq8Zr2LmT7Wd5Xc9Vb1"
"""The key that every request carries."""
SHARES = {str(n): 0.125 for n in range(1, 9)}
GOOD = json.dumps({"probabilities": SHARES, "speedup": 1.3, "p_valid": 0.8})


def completion(content: Any = GOOD, **change: Any) -> bytes:
    """A chat completion as a server sends it."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}
    return json.dumps(body | change).encode()


def answer(**change: Any) -> bytes:
    """A completion whose text is an answer with some fields changed."""
    return completion(json.dumps({"probabilities": SHARES, "speedup": 1.3} | change))


def _wrong_share(value: str) -> bytes:
    return completion(GOOD.replace("0.125", value, 1))


Mode = tuple[int, bytes, dict[str, str]]
"""Status, body, headers; status 0 closes the connection, status 1 sends a byte at a time; `ENDLESS` goes on."""
ENDLESS, MOST = b"x" * 2**20, 256
"""A piece of a body, and how many the client must not wait for."""

BODIES: dict[str, bytes] = {
    "HTML with status 200": b"<html><body>Bad gateway</body></html>",
    "nothing": b"",
    "null": b"null",
    "a number": b"17",
    "a string": b'"hello"',
    "a list": b"[]",
    "true": b"true",
    "half a completion": completion()[:60],
    "190,000 braces around it": b"{" * 190_000,
    "190,000 brackets": b"[" * 190_000 + b"]" * 190_000,
    "not UTF-8": b"\xff\xfe" + completion(),
    "NUL bytes": b"\0" * 1000,
    "NaN": b"NaN",
    "an integer of 5,000 digits": b"9" * 5000,
    "no choice": completion(choices=[]),
    "choices are a number": completion(choices=3),
    "choices are null": completion(choices=None),
    "a choice is null": completion(choices=[None]),
    "a message is a list": completion(choices=[{"message": []}]),
    "content is null": completion(None),
    "content is a number": completion(42),
    "content is a list of numbers": completion([1, 2, 3]),
    "content is an object": completion({"text": GOOD}),
    "content is blank": completion(" \n"),
    "content of 190,000 braces": completion("{" * 190_000),
    "content of 38,000 nested objects": completion('{"a":' * 38_000),
    "content of lone surrogates": completion('\ud800 {"probabilities": "\udfff"}'),
    "content with escapes": completion("\x1b[2J\x1b]0;owned\x07 no"),
    "a probability of 10**400": _wrong_share("1" + "0" * 400),
    "a probability of 1e308 each": completion(GOOD.replace("0.125", "1e308")),
    "a probability of Infinity": _wrong_share("Infinity"),
    "a probability of NaN": _wrong_share("NaN"),
    "a probability of -1": _wrong_share("-1"),
    "a probability of null": _wrong_share("null"),
    "a probability that is a list": _wrong_share("[1]"),
    "all probabilities are zero": completion(GOOD.replace("0.125", "0")),
    "nine bins": answer(probabilities=SHARES | {"9": 0.1}),
    "seven bins": answer(probabilities={k: v for k, v in SHARES.items() if k != "8"}),
    "probabilities are text": answer(probabilities="even"),
    "an error with status 200": b'{"error": {"message": "overloaded"}}',
    "17 MB": completion("x" * (17 * 2**20)),
}
USABLE: dict[str, bytes] = {
    "usage of 2**70": completion(usage={"prompt_tokens": 2**70, "completion_tokens": 2**70}),
    "usage of 10**400": completion(usage={"prompt_tokens": 10**400, "completion_tokens": -1}),
    "usage is text": completion(usage="free"),
    "usage is null": completion(usage=None),
    "created in the year 10**12": completion(created=10**18),
    "created is text": completion(created="now"),
    "model is a lone surrogate": completion(model="\ud800"),
    "model is a number": completion(model=5),
    "content in parts": completion([{"type": "text", "text": GOOD[:9]}, {"type": "text", "text": GOOD[9:]}]),
    "speedup of 10**400": completion(GOOD.replace("1.3", "1" + "0" * 400)),
    "speedup is NaN": completion(GOOD.replace("1.3", "NaN")),
    "p_valid of 7": answer(p_valid=7),
    "thoughts before it": completion("{not json} " * 2000 + GOOD),
}
"""Odd, and an answer all the same."""
STATUSES: dict[str, Mode] = {
    "400": (400, b"{}", {}),
    "401 without JSON": (401, b"no", {}),
    "404 in HTML": (404, b"<html>", {}),
    "413": (413, b"", {}),
    "418": (418, b"{}", {}),
    "422 with a message of 1 MB": (422, json.dumps({"error": {"message": "x" * 2**20}}).encode(), {}),
    "429 for ever": (429, b"{}", {"Retry-After-Ms": "1"}),
    "429, wait an hour": (429, b"{}", {"Retry-After": "3600"}),
    "429, wait till 2999": (429, b"{}", {"Retry-After": "Fri, 01 Jan 2999 00:00:00 GMT"}),
    "429, wait nonsense": (429, b"{}", {"Retry-After": "soon", "Retry-After-Ms": "nan"}),
    "500": (500, b"oops", {"Retry-After-Ms": "1"}),
    "503 in HTML": (503, b"<html>", {"Retry-After": "0"}),
    "529": (529, b"{}", {"Retry-After-Ms": "1"}),
    "the connection closes": (0, b"", {}),
    "a byte at a time": (1, completion(), {}),
    "gzip that is none": (200, b"\x1f\x8b nonsense", {"Content-Encoding": "gzip"}),
    "gzip of 64 MB": (200, gzip.compress(b" " * 2**26), {"Content-Encoding": "gzip"}),
    "gzip in gzip": (500, gzip.compress(gzip.compress(b" " * 2**26)), {"Content-Encoding": "gzip, gzip"}),
    "an encoding that nobody asked for": (200, completion(), {"Content-Encoding": "zstd"}),
    "an error without end": (400, ENDLESS, {"Content-Length": str(MOST << 20)}),
    "a redirect without end": (307, ENDLESS, {"Location": "/v1/x", "Content-Length": str(MOST << 20)}),
    "a length too long": (200, b"{}", {"Content-Length": "100000"}),
    "a redirect in a circle": (307, b"", {"Location": "/v1/chat/completions"}),
}
LEAKS = {
    "as it is": KEY,
    "in a header": f"Authorization: Bearer {KEY}",
    "in small letters": KEY.lower(),
    "in capitals": KEY.upper(),
    "turned around": KEY[::-1],
    "letter by letter": " ".join(KEY),
    "with zero-width spaces": "\u200b".join(KEY),
    "with line breaks": "\n".join(KEY[at : at + 5] for at in range(0, len(KEY), 5)),
    "in base64": base64.b64encode(KEY.encode()).decode(),
    "in base64 after a name": base64.b64encode(f"me:{KEY}".encode()).decode(),
    "in base64 for addresses": base64.urlsafe_b64encode(f"u:{KEY}".encode()).decode(),
    "in hex": KEY.encode().hex(),
    "in an address": f"https://me:{KEY}@host/v1",
    "quoted for an address": "sk%2Dproj%2D" + KEY[8:],
    "its first half": KEY[:15],
    "its second half": KEY[14:],
    "twice": KEY + KEY,
    "in JSON in a text": json.dumps({"headers": {"authorization": f"Bearer {KEY}"}}),
}
"""Ways to repeat a key."""
STATUSES |= {
    f"an error repeats the key {how}": (400, json.dumps({"error": {"message": f"bad key {text}"}}).encode(), {})
    for how, text in LEAKS.items()
} | {
    "the status line of a proxy repeats the key": (502, f"<html>{KEY}</html>".encode(), {"Retry-After-Ms": "1"}),
    "a redirect to another host": (307, b"", {"Location": "http://localhost:9/v1/chat/completions"}),
    "a redirect to another port": (308, b"", {"Location": "http://127.0.0.1:9/v1/chat/completions"}),
    "a redirect to another scheme": (307, b"", {"Location": "https://127.0.0.1/v1/chat/completions"}),
    "a redirect without a host": (307, b"", {"Location": "//elsewhere.invalid/v1"}),
    "a redirect to a file": (307, b"", {"Location": "file:///etc/passwd"}),
    "a redirect to nonsense": (307, b"", {"Location": "http://[::1"}),
    "a redirect to itself with a query": (307, b"", {"Location": "/v1/chat/completions?again"}),
    "a redirect without an address": (307, b"", {}),
    "a redirect that repeats the key": (307, b"", {"Location": f"http://{KEY}.invalid/"}),
    "300": (300, b"{}", {}),
    "304": (304, b"", {}),
    "402": (402, b"{}", {}),
    "403": (403, b"{}", {}),
    "405": (405, b"", {}),
    "408": (408, b"", {"Retry-After-Ms": "1"}),
    "409": (409, b"{}", {"Retry-After-Ms": "1"}),
    "425": (425, b"{}", {"Retry-After-Ms": "1"}),
    "451": (451, b"{}", {}),
    "501": (501, b"", {"Retry-After-Ms": "1"}),
    "599": (599, b"", {"Retry-After-Ms": "1"}),
    "600": (600, b"", {"Retry-After-Ms": "1"}),
    "429, wait a negative time": (429, b"{}", {"Retry-After": "-5"}),
    "a cookie of 30,000 bytes": (400, b"{}", {"Set-Cookie": "a=" + "x" * 30_000}),
}
USABLE |= {
    **{f"the model's name is the key {how}": completion(model=text) for how, text in list(LEAKS.items())[:6]},
    **{f"the answer repeats the key {how}": completion(f"{text} {GOOD}") for how, text in LEAKS.items()},
}
MODES: dict[str, Mode] = {name: (200, body, {}) for name, body in (BODIES | USABLE).items()} | STATUSES


def leaked(folder: Path) -> list[str]:
    """Files that hold the key: as it is, or when all but letters and digits is left out, or decoded."""
    plain = "".join(char for char in KEY if char.isalnum()).lower()
    parts = (KEY[:13], KEY[15:], plain, plain[::-1], KEY.encode().hex(), base64.b64encode(KEY.encode()).decode()[4:-4])
    found = []
    for path in (path for path in folder.rglob("*") if path.is_file()):
        text = path.read_bytes().decode("utf-8", "replace").encode().decode("unicode_escape", "replace")
        bare = "".join(char for char in text if char.isalnum()).lower()
        if any(part in text for part in parts) or plain in bare or plain[::-1] in bare:
            found.append(path.name)
    return found


class Server:
    """Answers by a function of the number of the call, which a test may exchange on the way."""

    def __init__(self, script: Callable[[int], Mode]) -> None:
        self.script, self.read_whole = script, 0
        self.bodies: list[dict[str, Any]] = []
        """What was asked."""
        outer, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    outer.bodies.append(asked)
                    call = outer.calls
                status, body, headers = outer.script(call)
                if status == 0:
                    self.close_connection = True
                    return
                self.send_response(200 if status == 1 else status)
                for name, value in ({"Content-Length": str(len(body))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                pieces = [body[at : at + 1] for at in range(len(body))] if status == 1 else [body]
                try:
                    for piece in pieces * (MOST if body is ENDLESS else 1):
                        self.wfile.write(piece)
                        time.sleep(0.1 if status == 1 else 0)
                except OSError:
                    return
                outer.read_whole += body is ENDLESS

            def log_message(self, format: str, *args: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    @property
    def calls(self) -> int:
        """How often it was asked."""
        return len(self.bodies)

    @property
    def url(self) -> str:
        """Address for clients."""
        return f"http://127.0.0.1:{self.server.server_port}/v1"


@contextmanager
def serving(script: Callable[[int], Mode]) -> Iterator[Server]:
    """A server while the block runs."""
    made = Server(script)
    threading.Thread(target=made.server.serve_forever, daemon=True).start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()


def try_mode(name: str, corpus: Any, folder: Path, timeout_s: float = 1.0) -> dict[str, Any]:
    """Evaluate against a server of this mode, then against a good one; what came of both."""
    from kbench.benchmark.evaluate.evaluate import evaluate_on
    from kbench.benchmark.evaluate.options import Options

    odd = MODES[name]
    os.environ["KBENCH_FAULT_KEY"] = KEY
    with serving(lambda call: odd if call % 4 == 0 else (200, completion(), {})) as server:
        given = {
            "api_key_env": "KBENCH_FAULT_KEY",
            "model": "m", "base_url": server.url, "timeout": timeout_s, "deadline": 3 * timeout_s, "concurrency": 4,
            "retries": 1, "retry_malformed": True,
        }  # fmt: skip
        options = Options(arguments=given, limit=QUERIES, tracks=("forecast",), resamples=10)
        first = evaluate_on("llm", corpus, options, out=folder)
        asked = server.calls
        server.script = lambda call: (200, completion(), {})
        second = evaluate_on("llm", corpus, options, out=folder)
        again = server.calls - asked
    failed = sum(first.run.failures.values())
    return {
        "mode": name,
        "failed": failed,
        "asked_again": again,
        "failed_at_last": sum(second.run.failures.values()),
        "reason": next(iter(first.run.failures), None),
        "leaked": leaked(folder),
        "good": again == failed
        and not server.read_whole
        and not leaked(folder)
        and not second.run.failures
        and len(first.run.forecasts) == QUERIES
        and (failed == 0 if name in USABLE else failed <= QUERIES / 2),
    }


def main() -> None:
    """Try every mode and write what came of it."""
    # Modules that tests load by name lie beside this folder.
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from beside import module_at

    from kbench.loaders.corpus.corpus import Corpus

    found = []
    with tempfile.TemporaryDirectory() as base:
        makers = module_at(Path(__file__).resolve().parents[2] / "benchmark/conftest.py")
        corpus = Corpus.open(makers.write_corpus(Path(base) / "corpus"))
        for name in MODES:
            with tempfile.TemporaryDirectory() as folder:
                found.append(try_mode(name, corpus, Path(folder), timeout_s=10.0))
            sys.stderr.write(f"{found[-1]}\n")
    wrong = [row for row in found if not row["good"]]
    Path(sys.argv[1]).write_text(json.dumps({"modes": len(found), "wrong": wrong, "rows": found}, indent=1) + "\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
