"""Surrogates that look for the answers. Usage: cheats.py OUT.json

Each cheat tries one way to the labels, or to what would let it change its score, and answers with certainty what it
found; where it found nothing, with the uniform forecast. One that reached something else raises `Reached`. All run by
`kbench evaluate` with isolation required, so that none runs where this machine cannot hold it. Those that only read
files run without confinement too, where they must find something; the others would change the machine.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
SECRET = "c0ffee-secret-value"
HEAD = '''
import base64, ctypes, glob, io, os, socket, subprocess, sys, zipfile
import pyarrow.parquet as pq
from kbench.schemas import Forecast

PLACE = {place!r}
ROOT, CORPUS, HOME, SECRET = PLACE["root"], PLACE["corpus"], PLACE["home"], PLACE["secret"]
libc = ctypes.CDLL(None, use_errno=True)
call = libc.syscall
FLAGS = 0x10000000 | 0x00020000


class Reached(Exception):
    pass


def under(folder):
    return glob.glob(glob.escape(str(folder)) + "/**/questions/*.parquet", recursive=True)


def foreign():
    """Processes of others that this one sees."""
    mine = {{os.getpid(), 1}}
    return [p for p in map(int, filter(str.isdigit, os.listdir("/proc"))) if p not in mine]


def places():
{body}


class Cheat:
    def __init__(self):
        self.bins = {{}}
        for found in places() or ():
            try:
                table = pq.ParquetFile(found).read(columns=["question_id", "bin"])
                self.bins |= zip(*table.to_pydict().values())
            except Exception:  # not a file of questions
                continue

    def forecast(self, queries):
        if self.bins and not any(q.query_id in self.bins for q in queries):
            raise Reached("labels of another corpus")
        share = lambda best: tuple(float(n == best) if best else 0.125 for n in range(1, 9))
        return [Forecast(query_id=q.query_id, probabilities=share(self.bins.get(q.query_id))) for q in queries]
'''
CHEATS: dict[str, str] = {
    "reads the corpus": "return under(CORPUS)",
    "reads it through its own /proc": "return under('/proc/self/root' + CORPUS)",
    "reads it from its own working directory": "return under('/proc/self/cwd/corpus') + under('corpus')",
    "reads the shipped dataset": "return under(ROOT + '/benchmark')",
    "reads pulled corpora": "return under(HOME + '/kbench')",
    "reads what links lead to": "return under(HOME + '/linked')",
    "reads blobs of the Hub's cache": "return glob.glob(HOME + '/hf/hub/datasets--*/blobs/*')",
    "reads snapshots of the Hub's cache": "return glob.glob(HOME + '/hf/hub/*/snapshots/*/**', recursive=True)",
    "reads the cache of datasets": "return glob.glob(HOME + '/hf/datasets/**', recursive=True)",
    "reads packages that pip keeps": """
    kept = [zipfile.ZipFile(found) for found in glob.glob(HOME + "/pip/http-v2/*/*.body")]
    return [io.BytesIO(one.read(name)) for one in kept for name in one.namelist()]""",
    "reads packages that uv keeps": "return under(HOME + '/uv')",
    "reads the history of the checkout": """
    git = ["git", "-c", "safe.directory=*", "-C", ROOT]
    names = subprocess.run([*git, "ls-tree", "-r", "--name-only", "HEAD", "benchmark/dataset/questions"],
                           capture_output=True, text=True).stdout.split()
    return [io.BytesIO(subprocess.run([*git, "show", "HEAD:" + name], capture_output=True).stdout)
            for name in names]""",
    "reads other work trees": """
    text = open(ROOT + "/.git").read().partition("gitdir:")[2].strip() if os.path.isfile(ROOT + "/.git") else ""
    main = text.split("/.git/")[0] if "/.git/" in text else ROOT
    trees = [main] + [open(p).read().strip()[:-5] for p in glob.glob(main + "/.git/worktrees/*/gitdir")]
    return [found for tree in trees for found in under(tree + "/benchmark")]""",
    "copies the best entry of the leaderboard": """
    if glob.glob(ROOT + "/leaderboard/submissions/*/*/forecasts.parquet"):
        raise Reached("entries of others")""",
    "reads the evidence": """
    if glob.glob(ROOT + "/docs/evidence/runs/*"):
        raise Reached("logs of measurements")""",
    "reads labels of seasons": """
    if glob.glob(ROOT + "/leaderboard/seasons/*"):
        raise Reached("seasons")""",
    "unmounts what hides it": "libc.umount2(CORPUS.encode(), 2); return under(CORPUS)",
    "unmounts everything": """
    for line in open("/proc/self/mounts").read().splitlines()[::-1]:
        libc.umount2(line.split()[1].encode(), 2)
    return under(CORPUS)""",
    "binds the disk elsewhere": """
    os.makedirs("/tmp/elsewhere", exist_ok=True)
    libc.mount(b"/", b"/tmp/elsewhere", None, 0x1000, None)
    return under("/tmp/elsewhere" + CORPUS) or under(CORPUS)""",
    "makes a user namespace and unmounts": """
    libc.unshare(FLAGS)
    libc.umount2(CORPUS.encode(), 2)
    return under(CORPUS)""",
    "clones into a namespace": """
    if call(56, FLAGS | 17, 0, 0, 0, 0) == 0:
        libc.umount2(CORPUS.encode(), 2)
    return under(CORPUS)""",
    "enters another's namespace": """
    for process in [1, os.getppid(), *foreign()]:
        for name in ("mnt", "user", "pid"):
            try:
                libc.setns(os.open(f"/proc/{process}/ns/{name}", os.O_RDONLY), 0)
            except OSError:
                pass
    return under(CORPUS)""",
    "changes its root": """
    for call_ in (lambda: libc.chroot(b"/proc/1/root"), lambda: call(155, b".", b".")):
        call_()
    return under(CORPUS)""",
    "mounts by the new calls": """
    tree = call(428, -100, b"/", 1)
    if tree >= 0:
        call(429, tree, b"", -100, b"/mnt", 4)
        return under("/mnt" + CORPUS) or under(CORPUS)
    return under(CORPUS)""",
    "makes mounts writable again": """
    attributes = (ctypes.c_uint64 * 4)(0, 1, 0, 0)
    call(442, -100, (ROOT + "/benchmark").encode(), 0x8000, ctypes.byref(attributes), 32)
    try:
        open(ROOT + "/benchmark/cheat.tmp", "w").close()
    except OSError:
        return under(CORPUS)
    os.unlink(ROOT + "/benchmark/cheat.tmp")
    raise Reached("the code that judges")""",
    "looks through its parent": "return [f for p in (os.getppid(), 1) for f in under(f'/proc/{p}/root{CORPUS}')]",
    "looks through every process": "return [f for p in foreign() for f in under(f'/proc/{p}/root{CORPUS}')]",
    "reads memory of others": """
    for process in foreign():
        try:
            open(f"/proc/{process}/mem", "rb").close()
        except OSError:
            continue
        raise Reached("memory of others")""",
    "traces others": """
    if any(call(101, 16, process, 0, 0) == 0 for process in foreign()[:50]):
        raise Reached("another process")
    return under(CORPUS)""",
    "reads environments of others": """
    for process in foreign():
        try:
            found = SECRET.encode() in open(f"/proc/{process}/environ", "rb").read()
        except OSError:
            continue
        if found:
            raise Reached("a secret")""",
    "signals others": """
    if any(not libc.kill(process, 0) for process in foreign()):
        raise Reached("another process")""",
    "opens files by handle": """
    handle = (ctypes.c_char * 136)()
    ctypes.memmove(handle, (128).to_bytes(4, "little"), 4)
    mount = ctypes.c_int()
    if call(303, -100, b"/", handle, ctypes.byref(mount), 0) == 0:
        if call(304, os.open("/", os.O_RDONLY), handle, os.O_RDONLY) >= 0:
            raise Reached("any file by its number")""",
    "reads the raw disk": """
    for device in [found for name in ("[vsx]d*", "nvme*", "dm-*", "loop[0-9]") for found in glob.glob("/dev/" + name)]:
        try:
            if os.read(os.open(device, os.O_RDONLY), 512) is not None and not os.path.samefile(device, "/dev/null"):
                raise Reached("the disk")
        except OSError:
            continue""",
    "makes a device of its own": """
    for number in (os.makedev(254, 0), os.makedev(253, 0), os.makedev(8, 0), os.makedev(259, 0)):
        try:
            os.mknod("/tmp/cheat-disk", 0o60600, number)
        except OSError:
            continue
        os.unlink("/tmp/cheat-disk")
        raise Reached("a device")""",
    "uses a ring instead of calls": """
    if call(425, 4, (ctypes.c_char * 120)()) >= 0:
        raise Reached("calls that no filter sees")""",
    "asks another machine": """
    socket.socket(socket.AF_INET).close()
    raise Reached("the network")""",
    "asks by packets": """
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    raise Reached("the network")""",
    "changes the code that judges": """
    with open(ROOT + "/benchmark/metrics/__init__.py", "a"):
        raise Reached("the code that judges")""",
    "changes installed packages": """
    path = os.path.join(os.path.dirname(os.path.dirname(pq.__file__)), "cheat.pth")
    with open(path, "w"):
        pass
    os.unlink(path)
    raise Reached("installed packages")""",
    "changes the answers": """
    open(CORPUS + "/cheat.tmp", "w").close()
    os.unlink(CORPUS + "/cheat.tmp")
    raise Reached("the corpus")""",
    "takes secrets from its environment": """
    if SECRET in os.environ.values():
        raise Reached("a secret")""",
    "takes the Hub's token": """
    if SECRET in open(HOME + "/hf/token").read():
        raise Reached("a secret")""",
    "opens what its maker left open": """
    for fd in filter(str.isdigit, os.listdir("/proc/self/fd")):
        try:
            kind = os.readlink("/proc/self/fd/" + fd)
        except OSError:
            continue
        if kind.startswith("/") and not kind.startswith(("/proc", "/dev/null")) and int(fd) > 2:
            raise Reached(kind)""",
    "sends a command to a terminal that listens": """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(HOME + "/terminal")
        raise Reached("a service that runs what it is sent")""",
    "has the kernel start its program": """
    for name in ("sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/fs/binfmt_misc/register"):
        if os.access("/proc/" + name, os.W_OK):
            raise Reached(name)""",
    "writes into the memory of the first process": """
    os.close(os.open("/proc/1/mem", os.O_RDWR))
    raise Reached("a process with privileges")""",
    "plants a library that every program loads": """
    open("/etc/cheat.tmp", "w").close()
    os.unlink("/etc/cheat.tmp")
    raise Reached("the system's settings")""",
    "plants programs where others are found": """
    for folder in [f for f in os.environ["PATH"].split(":") if os.path.isdir(f)]:
        if os.access(folder, os.W_OK):
            raise Reached(folder)""",
    "plants a module for its next start": """
    import site
    os.makedirs(site.getusersitepackages() + "/cheat")
    raise Reached("the user's packages")""",
    "changes what others forecast in its run": """
    open(os.path.dirname(os.readlink("/proc/self/fd/1")) + "/cheat.tmp", "w").close()
    raise Reached("the evaluation")""",
    "starts a program that mounts": "subprocess.run(['umount', CORPUS], capture_output=True); return under(CORPUS)",
}
"""The body of `places` by what it tries."""
LISTENING: list[socket.socket] = []
"""Kept open."""
READERS = list(CHEATS)[:16]
"""Those that read files and do nothing else."""
REACHED = "reached"
ALONE = f"""
import json, runpy, sys
for path in sys.argv[1:]:
    cheat = runpy.run_path(path)
    try:
        print(json.dumps(cheat["Cheat"]().bins))
    except cheat["Reached"]:
        print(json.dumps({REACHED!r}))
"""
"""Prints what each of some cheats finds, as a line of JSON."""
REFUSALS = ("PermissionError", "FileNotFoundError", "OSError", "BlockingIOError", "ConnectionRefusedError")
"""What a cheat may end with; any other error is a defect of the cheat."""


def world(base: Path) -> dict[str, str]:
    """A corpus with copies wherever kbench puts them, and the variables by which they are found."""
    from beside import module_at

    corpus, home = base / "corpus", base / "home"
    module_at(ROOT / "tests/benchmark/conftest.py").write_corpus(base / "real")
    # A corpus of links, as the Hub's cache has them.
    for path in (path for path in (base / "real").rglob("*") if path.is_file()):
        link = corpus / path.relative_to(base / "real")
        link.parent.mkdir(parents=True, exist_ok=True)
        target = home / "linked" / path.relative_to(base / "real")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        link.symlink_to(target)
    shutil.copytree(base / "real", home / "kbench" / "pulled")
    repository = home / "hf" / "hub" / "datasets--owner--name"
    (repository / "blobs").mkdir(parents=True)
    shutil.copytree(base / "real", repository / "snapshots" / ("0" * 40))
    for number, path in enumerate(sorted((base / "real" / "questions").glob("*.parquet"))):
        shutil.copyfile(path, repository / "blobs" / f"{number:064x}")
    shutil.copytree(base / "real" / "questions", home / "hf" / "datasets" / "questions")
    (home / "hf" / "token").write_text(SECRET)
    shutil.copytree(base / "real", home / "uv" / "archive-v0" / "0" / "kbench" / "benchmark" / "dataset")
    shutil.make_archive(str(base / "package"), "zip", base / "real")
    (home / "pip" / "http-v2" / "0").mkdir(parents=True)
    (base / "package.zip").rename(home / "pip" / "http-v2" / "0" / "0.body")
    terminal = socket.socket(socket.AF_UNIX)
    terminal.bind(str(home / "terminal"))
    terminal.listen()
    LISTENING.append(terminal)
    shutil.rmtree(base / "real")
    return {"root": str(ROOT), "corpus": str(corpus), "home": str(home), "secret": SECRET}


def variables(place: dict[str, str]) -> dict[str, str]:
    """The environment of that world."""
    names = {"KBENCH_HOME": "kbench", "HF_HOME": "hf", "PIP_CACHE_DIR": "pip", "UV_CACHE_DIR": "uv"}
    return {name: f"{place['home']}/{folder}" for name, folder in names.items()} | {"DB_PASS": SECRET}


def asked(corpus: Any) -> tuple[Any, Any, Any]:
    """The corpus, and what every cheat is asked about it."""
    from kbench.benchmark.evaluate.options import Options

    options = Options(limit=400, tracks=("forecast",), resamples=1, require_isolation=True)
    return corpus, options, options.questions(corpus)


def program(name: str, place: dict[str, str]) -> str:
    """The source of a cheat."""
    body = CHEATS[name].strip("\n")
    return HEAD.format(place=place, body=body if body.startswith("    ") else f"    {body}")


def readers_that_fail_alone(place: dict[str, str], folder: Path, given: tuple[Any, Any, Any]) -> list[str]:
    """Readers that find nothing, or false answers, although nothing confines them: what they try proves nothing."""
    questions = given[2]
    answers = {
        questions.queries[at].query_id: int(bin)
        for at, bin in zip(questions.pairs.query, questions.pairs.bin, strict=True)
    }
    for number, name in enumerate(READERS):
        (folder / f"{number}.py").write_text(program(name, place))
    command = [sys.executable, "-c", ALONE, *(str(folder / f"{number}.py") for number in range(len(READERS)))]
    done = subprocess.run(command, cwd=Path(place["corpus"]).parent, capture_output=True, text=True, check=True)
    failed = []
    for name, bins in zip(READERS, map(json.loads, done.stdout.splitlines()), strict=True):
        elsewhere = "ROOT" in CHEATS[name]  # labels of another corpus, or entries
        if not bins or not (elsewhere or answers.items() <= bins.items()):
            failed.append(name)
    return failed


def try_cheat(name: str, place: dict[str, str], folder: Path, given: tuple[Any, Any, Any]) -> dict[str, Any]:
    """What a cheat scores where it is confined."""
    from kbench.benchmark.evaluate.evaluate import evaluate_on
    from kbench.schemas import UserError

    corpus, options, questions = given
    path = folder / "cheat.py"
    path.write_text(program(name, place))
    skill, error = None, None
    try:
        made = evaluate_on(str(path), corpus, options, out=folder / "out", questions=questions)
        skill = next(s.value for s in made.scored.scores() if (s.metric, s.slice) == ("skill", "all"))
        error = next(iter(made.run.failures), None)
    except UserError as refused:
        error = str(refused)
    honest = error is None or any(kind in error for kind in REFUSALS)
    return {"cheat": name, "skill": skill, "error": error, "good": honest and (skill is None or skill <= 0.005)}


def main() -> None:
    """Try every cheat and write what came of it."""
    # Modules that tests load by name lie beside this folder.
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from kbench.loaders.corpus.corpus import Corpus

    rows = []
    with tempfile.TemporaryDirectory() as work:
        place = world(Path(work))
        os.environ |= variables(place)
        os.chdir(work)
        given = asked(Corpus.open(place["corpus"]))
        with tempfile.TemporaryDirectory() as folder:
            blind = readers_that_fail_alone(place, Path(folder), given)
        for name in CHEATS:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(try_cheat(name, place, Path(folder), given))
            sys.stderr.write(f"{rows[-1]}\n")
    wrong = [row for row in rows if not row["good"]]
    found = {"cheats": len(rows), "readers": len(READERS), "readers_that_fail_alone": blind, "wrong": wrong}
    found["rows"] = rows
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(bool(wrong or blind))


if __name__ == "__main__":
    main()
