"""`python -m kbench` and the installed command: an interrupt is one line, whatever is being done."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

IMPORTING = "<frozen importlib._bootstrap>"
SAID = "kbench: interrupted\n"


def main() -> None:
    """Run the command and end with its exit code, 130 after an interrupt."""
    open_closed_streams()
    leave_working_directory()
    try:
        signal.signal(signal.SIGINT, interrupt)
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:  # under nohup it stays ignored
                signal.signal(number, interrupt)
        from kbench.cli import main as run

        code = run()
    except KeyboardInterrupt:
        sys.stderr.write(SAID)
        code = 130
    # What runs at exit must not answer another interrupt with a traceback.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    sys.exit(code)


def open_closed_streams() -> None:
    """Give streams that the caller has closed to the null device: the next file opened would take their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), "w" if number else "r"))


def leave_working_directory() -> None:
    """Look for modules where the installed command does: one that foreign code leaves here must not be imported."""
    try:
        if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
            del sys.path[0]
    except FileNotFoundError:
        return


def interrupt(number: int, frame: FrameType | None) -> None:
    """End the command by an exception, so that what it has begun is removed.

    Amid an import it ends at once, because extension modules would swallow the exception. That is safe: commands may be
    killed at any moment.
    """
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            sys.stderr.write(SAID)
            sys.stderr.flush()
            os._exit(128 + number)
        frame = frame.f_back
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
