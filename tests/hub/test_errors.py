"""What goes wrong between here and the Hub is told in one line."""

import errno

import pytest

from kbench.loaders.hub.repository import plain_errors, push
from kbench.schemas import InfrastructureError, KbenchError, UserError


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), InfrastructureError, "the disk is full while fetching"),
        (ConnectionResetError("reset by peer"), InfrastructureError, "did not answer for 'a/b': reset by peer"),
    ],
)
def test_errors_of_the_machine_are_told(error: OSError, kind: type[KbenchError], message: str) -> None:
    def fail() -> None:
        with plain_errors("a/b"):
            raise error

    with pytest.raises(kind, match=message):
        fail()


def test_our_own_mistakes_are_not_blamed_on_the_hub() -> None:
    def fail() -> None:
        with plain_errors("a/b"):
            raise KeyError("ours")

    with pytest.raises(KeyError):
        fail()


def test_a_name_that_is_no_repository_is_refused(tmp_path: object) -> None:
    with pytest.raises(UserError, match="must be owner/name"):
        push(tmp_path, "nothing")  # type: ignore[arg-type]
