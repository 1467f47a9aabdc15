"""The mark of a registration: by it the next process knows that the one before lost nothing, however it ended.

A broker whose replicated partitions sync before they acknowledge loses nothing that others count on, also by a kill or a
power cut. It leaves the epoch of its registration in each of its directories. The mark goes before anything is hosted that
may be lost, and is not there in a directory that is new. ``.stratalog-registration``, JSON as Kafka's mark of a clean
shutdown. Source: KIP-966 (PreviousBrokerEpoch), whose brokers are dirty after each unclean stop.
"""

from __future__ import annotations

import json
from typing import Final

from stratalog.hot.storage.checkpoint import write_durably
from stratalog.hot.storage.filesystem import Filesystem

__all__ = ["REGISTRATION", "read_registration", "remove_registration", "write_registration"]

REGISTRATION: Final = ".stratalog-registration"
_NONE: Final = -1


def write_registration(files: Filesystem, directory: str, broker_epoch: int) -> None:
    """Leave the mark, durably. Raises `OSError`."""
    mark = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    write_durably(files, f"{directory}/{REGISTRATION}", mark.encode("ascii"))


def read_registration(files: Filesystem, directory: str) -> int:
    """The epoch of the registration; -1 if there is no mark, or one that cannot be read. Raises `OSError`."""
    try:
        return int(json.loads(files.read_bytes(f"{directory}/{REGISTRATION}"))["brokerEpoch"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return _NONE


def remove_registration(files: Filesystem, directory: str) -> None:
    """Take the mark away, durably. Raises `OSError`."""
    files.unlink(f"{directory}/{REGISTRATION}")
    files.sync_directory(directory)
