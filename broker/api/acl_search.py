"""Find the rules of access that filters ask for, with turns for others between: there may be a hundred thousand rules."""

from __future__ import annotations

from typing import Final

from stratalog.broker.runtime.slices import Steps
from stratalog.metadata.access.acl_rules import AclFilter, AclRule
from stratalog.metadata.access.acls import AclsImage
from stratalog.wire.topic import Uuid

__all__ = ["CHANGES_AT_ONCE", "PAUSE_RULES", "find_acls"]

PAUSE_RULES: Final = 100
"""Rules looked at, or made rows of, between two pauses."""
CHANGES_AT_ONCE: Final = 200
"""The rules that one command adds or removes. Others have their turns before the next one."""


def find_acls(acls: AclsImage, wanted: AclFilter) -> Steps[list[tuple[Uuid, AclRule]]]:
    """The rules that match, with their ids, in no particular order."""
    found = []
    for number, candidate in enumerate(acls.candidates(wanted)):
        if wanted.matches(candidate[1]):
            found.append(candidate)
        if number % PAUSE_RULES == PAUSE_RULES - 1:
            yield None
    return found
