"""Damage well over two thousand files of all formats and import each: no traceback, no folder left, no wrong row.

    python docs/evidence/scripts/import_fuzz.py [TIMES]

It runs tests/loaders/importers/test_fuzz.py with TIMES as many files as the test suite does (by default five).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[3] / "tests" / "loaders" / "importers" / "test_fuzz.py"


if __name__ == "__main__":
    os.environ["KBENCH_FUZZ"] = sys.argv[1] if len(sys.argv) > 1 else "5"
    sys.exit(pytest.main([str(TESTS), "-q", "-p", "no:cacheprovider", "--timeout=1800"]))
