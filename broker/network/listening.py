"""The error of a port that cannot be listened on: the setting that named it, and what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["naming_setting"]

_REMEDIES: Final = {
    errno.EADDRINUSE: "another process, perhaps another broker, listens there; stop it or choose another port",
    errno.EADDRNOTAVAIL: "no interface of this machine has this address",
    errno.EACCES: "ports below 1024 need a privilege; choose a higher one",
}


@contextmanager
def naming_setting(setting: str, host: str, port: int) -> Iterator[None]:
    """Raise an `OSError` of the body again, with the setting that names the address and with what to do."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # a host name that cannot be resolved has its own words
            raise
        reason = _REMEDIES.get(error.errno, os.strerror(error.errno))
        raise OSError(error.errno, f"{setting}: cannot listen on {host}:{port}: {reason}") from error
