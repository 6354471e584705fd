"""Weights and tokenizers: from a folder, a GGUF file or the Hub, through transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kbench.schemas import UserError

INSTALL = "python -m pip install 'kbench-gpu[lm]'"


def load_network(model: str, device: str = "auto", dtype: str = "auto") -> Any:
    """Weights from a folder, a GGUF file or the Hub.

    Args:
        model: where they are.
        device: cpu, cuda, or auto: a GPU where there is one.
        dtype: float32, bfloat16, or auto: bfloat16 on a GPU.

    Raises:
        UserError: there are none, they cannot be read, or the extra `lm` is not installed.
    """
    torch, _ = _libraries()
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    elif device.startswith("cuda") and not torch.cuda.is_available():
        raise UserError(f"device is {device!r}, but torch sees no GPU here; use device=cpu")
    number = {"auto": "bfloat16" if device.startswith("cuda") else "float32"}.get(dtype, dtype)
    if number not in ("float32", "bfloat16"):
        raise UserError(f"dtype is {dtype!r}; it must be float32, bfloat16 or auto")
    if device.startswith("cuda"):
        # It plans every new shape anew, and each batch of prompts has its own.
        torch.backends.cuda.enable_cudnn_sdp(False)
    loaded = _loaded("AutoModelForCausalLM", model, dtype=getattr(torch, number))
    if model.endswith(".gguf"):
        # Its weights are plain numbers by now: they can be trained and saved like any others.
        loaded.hf_quantizer = None
        del loaded.config.quantization_config
    return loaded.to(device).eval()


def load_tokenizer(model: str) -> Any:
    """The tokenizer beside the weights.

    Raises:
        UserError: there is none, or the extra `lm` is not installed.
    """
    return _loaded("AutoTokenizer", model)


def digit_tokens(tokenizer: Any, model: str) -> list[int]:
    """The tokens of the ten digits.

    Raises:
        UserError: a digit is not one token.
    """
    found = [tokenizer.encode(str(digit), add_special_tokens=False) for digit in range(10)]
    if any(len(tokens) != 1 for tokens in found):
        raise UserError(f"model {model!r} has no token for every digit; lm needs a tokenizer that has")
    return [tokens[0] for tokens in found]


def _libraries() -> tuple[Any, Any]:
    """torch and transformers."""
    try:
        import torch
        import transformers
    except ModuleNotFoundError as error:
        raise UserError(f"lm needs {error.name}; install it with {INSTALL}") from None
    return torch, transformers


def _loaded(kind: str, model: str, **more: Any) -> Any:
    _, transformers = _libraries()
    path = Path(model)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise UserError(f"model {model!r} does not exist; give a .gguf file, a folder of weights or a Hub id")
        model, more = str(path.parent), {**more, "gguf_file": path.name}
    elif path.is_dir() and not (path / "config.json").is_file():
        raise UserError(f"folder {model!r} holds no config.json; give a folder that save_pretrained wrote, or a .gguf")
    transformers.utils.logging.disable_progress_bar()
    try:
        return getattr(transformers, kind).from_pretrained(model, **more)
    except (OSError, ValueError, ImportError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"model {model!r} cannot be loaded ({first}); give a folder, a .gguf file or a Hub id"
        ) from None
