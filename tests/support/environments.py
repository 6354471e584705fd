"""Every environment, validated and run end to end with a scripted model behind an OpenAI-compatible endpoint.

Needs the packages of `environments/`, and uv on the path, with which verifiers starts its chat program. Kernels are
checked without a GPU. Prints one JSON line per run.

Usage: python tests/support/environments.py
"""

import http.server
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROBLEM = "softmax"
KERNEL = (ROOT / "examples/kernels/softmax__triton__whole_row.py").read_text("utf-8")
NEAR = json.dumps({"probabilities": {str(number): float(number == 5) for number in range(1, 9)}})
REPLIES = {
    "forecast": [NEAR, "I do not know."],
    "write": [f"```python\n{KERNEL}\n```", f"```python\n{KERNEL.replace('tl.exp', 'tl.exp2')}\n```", "I cannot."],
}
"""What the model says, in turn: to be scored between 0 and 1, or as 0; and as correct, wrong, and without a kernel."""


def endpoint(replies: list[str]) -> http.server.HTTPServer:
    """A chat endpoint that gives its replies in turn, whatever it is asked."""
    asked = iter(range(1 << 30))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            streamed = json.loads(self.rfile.read(int(self.headers["Content-Length"]))).get("stream")
            message = {"role": "assistant", "content": replies[next(asked) % len(replies)]}
            choice = {"index": 0, "finish_reason": "stop", "delta" if streamed else "message": message}
            answer = {
                "id": "scripted", "object": "chat.completion" + (".chunk" if streamed else ""), "created": 0,
                "model": "scripted", "choices": [choice],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }  # fmt: skip
            text = f"data: {json.dumps(answer)}\n\ndata: [DONE]\n\n" if streamed else json.dumps(answer)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream" if streamed else "application/json")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def command(*words: str, folder: Path, **environment: str) -> None:
    """Run a program of this Python's environment."""
    program = str(Path(sys.executable).parent / words[0])
    done = subprocess.run(
        [program, *words[1:]], cwd=folder, env=os.environ | environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")


def verifiers_runs(kind: str, folder: Path) -> Iterator[dict[str, Any]]:
    """`vf-validate`, then `vf-eval` with the scripted model."""
    name, replies = f"kbench-{kind}", REPLIES[kind]
    options = {"problem": json.dumps([PROBLEM]), "backend": '["triton"]'}
    options |= {"task.timed": "false"} if kind == "write" else {}
    shared = ["-n", "1"]
    local = [word for key, value in options.items() for word in (f"--taskset.{key}", value)]
    where = ["--rich", "false", "--runtime.type", "subprocess", "-o", "validated"]
    command("vf-validate", name, *local, *shared, *where, folder=folder)
    [summary] = folder.glob("validated/*/summary.json")
    checks = json.loads(summary.read_text())["checks"]
    yield {"environment": name, "command": "vf-validate", "gold": checks["gold"], "noop": checks["noop"]}
    server = endpoint(replies)
    chosen = [word for key, value in options.items() for word in (f"--env.taskset.{key}", value)]
    agent = ["--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess"]
    model = ["-m", "scripted", "--client.base-url", f"http://127.0.0.1:{server.server_port}/v1"]
    # One at a time, so that the replies come in order.
    many = ["-r", str(len(replies)), "-c", "1", "--no-push", "-o", "evaluated"]
    command("vf-eval", name, *chosen, *shared, *agent, *model, *many, folder=folder)
    server.shutdown()
    [traces] = folder.glob("evaluated/*/traces.jsonl")
    for line in traces.read_text("utf-8").splitlines():
        [trace] = json.loads(line)["traces"]
        yield {
            "environment": name, "command": "vf-eval", "task": trace["task"]["data"]["name"],
            "bin": trace["task"]["data"].get("bin"), "errors": trace["errors"],
            "rewards": trace["rewards"], "metrics": trace["metrics"],
        }  # fmt: skip


def inspect_runs(kind: str, folder: Path) -> Iterator[dict[str, Any]]:
    """The task of inspect_ai by its registered name, with the same replies."""
    from inspect_ai import eval as evaluate
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    replies = [ModelOutput.from_content("scripted", text) for text in REPLIES[kind]]
    for reply in replies:
        reply.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    arguments = {"split": "train", "problem": PROBLEM, "backend": "triton"}
    [log] = evaluate(
        f"kbench_inspect/{kind}",
        model=get_model("mockllm/model", custom_outputs=replies),
        task_args=arguments | ({"timed": False} if kind == "write" else {}),
        limit=1, epochs=len(replies), max_samples=1, display="none", log_dir=str(folder),
    )  # fmt: skip
    for sample in log.samples or ():
        scores = {name: score.value for name, score in (sample.scores or {}).items()}
        yield {"environment": "kbench-inspect", "command": log.eval.task, "status": log.status, "scores": scores}


def main() -> None:
    """Print what each environment did."""
    packages = ("verifiers", "inspect_ai", "torch", "triton")
    sys.stdout.write(json.dumps({name: importlib.metadata.version(name) for name in packages}) + "\n")
    for kind in REPLIES:
        for runs in (verifiers_runs, inspect_runs):
            with tempfile.TemporaryDirectory() as folder:
                for row in runs(kind, Path(folder)):
                    sys.stdout.write(json.dumps(row) + "\n")
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
