"""Find the rules of access that filters ask for, with turns for others between: there may be a hundred thousand rules."""

from __future__ import annotations

import asyncio
from typing import Final

from stratalog.metadata.acl_rules import AclFilter, AclRule
from stratalog.metadata.acls import AclsImage
from stratalog.wire.topic import Uuid

__all__ = ["CHANGES_AT_ONCE", "find_acls"]

_LOOKED_AT_AT_ONCE: Final = 5_000
CHANGES_AT_ONCE: Final = 200
"""The rules that one command adds or removes. Others have their turns before the next one."""


async def find_acls(acls: AclsImage, wanted: AclFilter) -> list[tuple[Uuid, AclRule]]:
    """The rules that match, with their ids, in no particular order."""
    found = []
    for number, candidate in enumerate(acls.candidates(wanted)):
        if wanted.matches(candidate[1]):
            found.append(candidate)
        if number % _LOOKED_AT_AT_ONCE == _LOOKED_AT_AT_ONCE - 1:
            await asyncio.sleep(0)
    return found
