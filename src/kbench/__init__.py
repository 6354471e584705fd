"""kbench: how fast will this GPU kernel run, and how sure are you?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["__version__", "load"]

if TYPE_CHECKING:
    from kbench.loaders.corpus.corpus import load


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    # Lazy, so that `import kbench` costs nothing: the loader pulls in pyarrow.
    if name == "load":
        from kbench.loaders.corpus.corpus import load

        return load
    raise AttributeError(f"module 'kbench' has no attribute {name!r}")
