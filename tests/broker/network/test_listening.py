"""A port that cannot be listened on names its setting and the remedy."""

from __future__ import annotations

import errno
import socket

import pytest

from stratalog.broker.network.listening import naming_setting


def test_a_taken_port_names_the_setting_and_the_other_process() -> None:
    """The error keeps its number."""
    with socket.socket() as taken, socket.socket() as other:
        taken.bind(("127.0.0.1", 0))
        host, port = taken.getsockname()
        with (
            pytest.raises(
                OSError, match=rf"^\[Errno \d+\] listeners: cannot listen on {host}:{port}: another process"
            ) as caught,
            naming_setting("listeners", host, port),
        ):
            other.bind((host, port))
    assert caught.value.errno == errno.EADDRINUSE


@pytest.mark.parametrize(
    ("number", "words"), [(errno.EADDRNOTAVAIL, "no interface"), (errno.EMFILE, "Too many open files")]
)
def test_any_other_reason_is_named(number, words) -> None:
    """In words of ours or of the system."""
    with pytest.raises(OSError, match=words), naming_setting("listeners", "h", 1):
        raise OSError(number, "raw")


def test_a_host_name_that_cannot_be_resolved_keeps_its_words() -> None:
    """Such an error has no number of the system."""
    with pytest.raises(OSError, match=r"^unknown name$"), naming_setting("listeners", "h", 1):
        raise OSError("unknown name")
