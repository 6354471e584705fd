"""Mistakes a newcomer makes: each is answered in one line that names what is wrong and what to do, at once."""

import shlex
import sys
import time
from pathlib import Path

import pytest

from kbench import cli
from kbench.loaders.corpus.corpus import Corpus

LIMIT_S = 3.0
"""Of processor time, without the imports that an earlier test has made."""
FILES = {
    "k.py": "def run(x): return x", "empty.json": "{}", "bad.jsonl": "not json", "t.csv": "a,b\n1,2\n",
    "r.toml": "x = 1", "folder/nothing.txt": "", "k.cuda.py": "module = CudaModule('')\ndef run(x): return x",
}  # fmt: skip
MISTAKES = {
    "evalute --surrogate static": "Did you mean 'evaluate'?",
    "evaluate": "no surrogate given; use --surrogate",
    "evaluate static": "unexpected extra argument (static); name a surrogate with --surrogate",
    "evaluate --surrogate statik": "did you mean 'static'",
    "evaluate --surrogate static --split tets": "did you mean 'test'?",
    "generate --problem softmax --backend cuda --budget -5 --out r": "budget '-5' is no amount above 0",
    "generate --problem elu --backend cuda --budget 8 --proposer my.py --executor none --recorded shipped --out r": (
        "by answering Batch files"
    ),
    "generate study shiped --out r": "does not exist",
    "generate study shipped --unsure-share 5 --out r": "5.0 is not in the range 0<=x<=1",
    "evaluate --surrogate static --dataset shiped": "did you mean 'shipped'?",
    "evaluate --surrogate static --limit 0": "it must be at least 1",
    "evaluate --surrogate static --limit abc": "not a valid integer",
    "evaluate --surrogate static --tracks forcast": "did you mean 'forecast'?",
    "evaluate --surrogate static --problems softmx": "Did you mean '--problem'?",
    "evaluate --surrogate static --dataset nowhere": "give a corpus folder, Parquet files or a Hub id",
    "evaluate --surrogate folder --limit 5": "holds no forecasts.parquet or forecasts.jsonl",
    "evaluate --surrogate bad.jsonl --limit 5": "cannot be read as forecasts",
    "evaluate --surrogate llm --limit 5": "llm needs --surrogate-arg model=NAME",
    "evaluate --surrogate llm --surrogate-arg model --limit 5": "it must be name=value",
    "evaluate --surrogate static --surrogate-arg modle=x --limit 5": "no argument 'modle'; did you mean 'model'?",
    "evaluate --surrogate static --out k.py --limit 5": "'k.py' is a file",
    "evaluate --surrogate prior --out /proc/nowhere --limit 5": "cannot be written",
    "evaluate --surrogate prior --seed -1": "-1 is not in the range",
    "evaluate --surrogate static --shots 3": "not one of '0', '2', '8'",
    "evaluate --surrogate static --surrogate-arg retrain=maybe": "it must be true or false",
    "evaluate --surrogate t.csv": "neither a model (.py) nor forecasts",
    "evaluate --surrogate prior --compare prior": "name another",
    "evaluate --surrogate my_model.py": "'my_model.py' does not exist",
    "evaluate --surrogate stack:static --limit 5": "write stack:A+B",
    "evaluate --surrogate static --compare nope --limit 5": "unknown surrogate 'nope'",
    "evaluate --tracks tune --limit 20": "--limit does not apply to --tracks tune",
    "evaluate --tracks tune --surrogate k.py": "unknown built-in strategy 'k.py'",
    "generate --problem softmax --backend cuda --budget 8 --recorded shipped --out r": "or add --executor replay",
    "evaluate --surrogate replay": "write replay:FILE",
    "evaluate --surrogate static --problem ''": "unknown problem ''",
    "generate study shipped --out s --methods ''": "unknown method ''",
    "kernels best softmax --top 5": "No such option '--top' (see",
    "explain t.csv --problem softmax": "'t.csv' is no kernel file; give one that ends in .py",
    "surrogate nwe x.py": "Did you mean 'new'?",
    "surrogate new": "Missing argument 'FILE'",
    "surrogate new my-model.py": "such as my_model.py",
    "surrogate new k.py": "choose another name",
    "measure": "give FILES with --problem",
    "measure k.py": "--problem is missing",
    "measure k.py --problem softmaxx": "did you mean 'softmax'",
    "measure nope.py --problem softmax": "'nope.py' does not exist",
    "measure k.py --problem softmax --gpu one": "give an index such as 0",
    "measure k.py --problem softmax --max-memory lots": "give an amount such as 24G",
    "measure --corpus nowhere": "give a corpus folder",
    "measure k.py --problem gelu_tanh --gpu zero --corpus x": "--corpus takes no FILES",
    "measure k.py --problem gelu_tanh --check-only --out x": "--check-only times nothing",
    "measure k.py --problem gelu_tanh --backend cuda": "is no cuda kernel: it uses no CudaModule",
    "measure k.cuda.py --problem gelu_tanh --backend triton": "is no triton kernel: it uses a CudaModule",
    "measure k.py k.cuda.py --problem gelu_tanh --watch": "--watch takes one FILE",
    "measure k.py --problem gelu_tanh --half-width -1": "'--half-width'",
    "measure k.py --problem gelu_tanh --half-width 2": "'--half-width'",
    "measure k.py --problem gelu_tanh --limit 0": "'--limit'",
    "measure k.py --problem gelu_tanh --timeout -1": "'--timeout'",
    "compare k.py": "Missing argument 'OTHER'",
    "compare k.py k.py": "--problem is missing",
    "explain k.py": "--problem is missing; say which problem the files solve",
    "explain 95547d93d69c c3474c304bee": "the kernels solve selective_scan and softmax",
    "explain ffffffff": "no kernel's id begins with 'ffffffff'",
    "explain k.py --problem softmaxx": "did you mean 'softmax'",
    "explain k.py --problem softmax --gpu H1000": "unknown GPU 'H1000'; did you mean 'H100'",
    "explain k.py --problem softmax --gpu MI300X": "name an NVIDIA GPU",
    "explain k.py k.py k.py --problem softmax": "two to compare",
    "explain k.py --problem softmax --plot x.txt": "it must end in .png",
    "contribute --gpu 0,1": "one GPU at a time",
    "contribute --deadline 5": "not in the range",
    "contribute --out folder": "choose another folder",
    "doctor --gpu x": "give an index such as 0",
    "generate --out r": "exactly one of --problem",
    "generate --problem softmax": "--out is missing",
    "generate --problem softmax --out r": "--backend is missing",
    "generate --problem softmax --backend cuda --budget 5,6 --out r": "measurements twice",
    "generate --problem softmax --backend cuda --budget 0.5 --out r": "0.5 measurements",
    "generate --problem softmax --backend cuda --budget 2.5t --out r": "2.5 tokens",
    "generate --problem softmax --backend cuda --budget 8 --method none --out r": "known: bayes, evolve, hill_climb",
    "generate --problem softmax --backend cuda --budget 8 --method pucd --out r": "did you mean 'puct'",
    "generate --problem gelu_tan --backend cuda --budget 8 --out r": "did you mean 'gelu_tanh'",
    "generate --problem fp8_quant_float32 --backend cuda --budget 8 --out r": "unknown problem 'fp8_quant_float32'",
    "generate --problem softmax --backend cuda --budget 8 --executor replay --out r": "needs --recorded",
    "generate --problem softmax --backend cudaa --out r": "not one of 'triton', 'cuda'",
    "generate --problem softmax --backend cuda --out r": "--budget is missing",
    "generate --problem softmax --backend cuda --budget ten --out r": "write 320m",
    "generate --problem softmax --backend cuda --budget 0 --out r": "budget '0' allows nothing; give more than 0",
    "generate study nowhere --out s": "'nowhere' does not exist",
    "generate study shipped --out k.py": "'k.py' is a file",
    "generate study shipped --out s --methods evolve+statik": "did you mean 'static'",
    "generate status folder": "start one with kbench generate",
    "generate corpus r.toml": "Missing option '--out'",
    "problems list --family matmull": "did you mean 'matmul'",
    "problems show softmx": "did you mean 'softmax'",
    "problems check nope": "did you mean 'rope'?",
    "kernels best softmx": "did you mean 'softmax'",
    "kernels best softmax --gpu A100": "known: NVIDIA H200",
    "kernels best --beats cuBLASS": "did you mean 'cuBLAS'",
    "kernels show 95547d93d69c -o nowhere/k.py": "nowhere/k.py: No such file or directory; make its folder first",
    "kernels show zzzz": "find ids with: kbench kernels best",
    "kernels show d": "give more digits",
    "data info nowhere": "give a corpus folder",
    "data info folder": "it has no manifest.json",
    "data info k.py": "is not a corpus",
    "data query --where speedup>": "use comparisons",
    "data query --where 'speeup > 2'": "did you mean 'speedup'",
    "data query --columns kernelid": "did you mean 'kernel_id'?",
    "data query --problem sofmax": "did you mean 'softmax'",
    "data qury": "Did you mean 'query'?",
    "data export -o x.xlsx": "xlsx",
    "data query --config kernel": "did you mean 'kernels'?",
    "data query --gpu A100": "known: NVIDIA H200",
    "data export --format jsn -o x": "did you mean 'jsonl'?",
    "data import t.csv --out o": "name it with --format",
    "data import t.csv --out o --map source=code": "--map must name problem",
    "data import nope.json --out o": "give the files to import",
    "data import shipped k.py --out o": "import that first, then join both",
    "data merge a b": "No such command 'merge'",
    "data fetch nope": "gpu-forecasters",
    "data assemble r.toml --out o": "unknown field 'x'",
    "leaderboard check nope": "'nope' does not exist",
    "leaderboard build": "Missing option '--out'",
    "leaderboard serve folder": "build the site first",
    "leaderboard build --submissions nope --out site": "'nope' does not exist",
}


@pytest.fixture(scope="module", autouse=True)
def verified() -> None:
    """The shipped dataset is compared with its hashes once on a machine, which takes seconds."""
    Corpus.open(None, verified=True)


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_answered_in_one_line_at_once(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["kbench", *shlex.split(line)])
    began = time.process_time()
    assert cli.main() == 2
    assert time.process_time() - began < LIMIT_S
    said = capsys.readouterr().err.strip().splitlines()
    assert MISTAKES[line] in said[-1]
    assert "internal error" not in said[-1]
    assert sum("kbench: " in each for each in said) == 1
