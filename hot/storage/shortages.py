"""Errors of a disk that pass: there is room again, or a free descriptor. After any other it is unknown what is on the disk."""

from __future__ import annotations

import errno
from typing import Final

__all__ = ["DISK_FULL", "NO_DESCRIPTOR", "SHORTAGES"]

DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})
SHORTAGES: Final = DISK_FULL | NO_DESCRIPTOR
