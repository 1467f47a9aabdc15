"""``HOST:PORT`` as clients, commands and settings write it."""

from __future__ import annotations

import re
from typing import Final

from stratalog.wire.errors import Invalid

__all__ = ["PORT_MAX", "AddressError", "parse_address"]

PORT_MAX: Final = 65535
_ADDRESS: Final = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.%]+)\]|(?P<host>[0-9A-Za-z._-]*)):(?P<port>[0-9]+)")


class AddressError(Invalid):
    """A text is no ``HOST:PORT``; the message names the setting or the option it was given for."""


def parse_address(text: str, setting: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``; IPv6 in brackets, the host may be empty.

    Raises:
        AddressError: not of that form, or no such port.

    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match["port"]) > PORT_MAX:
        raise AddressError(
            f"{setting}: {text!r} is not HOST:PORT; for example 127.0.0.1:9092, or port 0 for any free one"
        )
    return match["v6"] or match["host"], int(match["port"])
