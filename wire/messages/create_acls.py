"""CreateAcls (key 30): add access rules; the numbers are those of DescribeAcls.

- 1: pattern types (KIP-290). 2: flexible. 3: the resource type for users (KIP-373).
"""

from __future__ import annotations

from stratalog.wire.schema import Int8, Int16, Int32, Message, Struct, field

__all__ = [
    "AclCreation",
    "AclCreationResult",
    "CreateAclsRequest",
    "CreateAclsResponse",
]


class AclCreation(Struct):
    """One rule."""

    resource_type: Int8
    resource_name: str
    resource_pattern_type: Int8 = field(3)
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


class CreateAclsRequest(Message, api_key=30, versions=(1, 3), flexible=2):
    """The rules."""

    creations: list[AclCreation]


class AclCreationResult(Struct):
    """The outcome for one rule."""

    error_code: Int16 = field()
    error_message: str | None = field()


class CreateAclsResponse(Message, api_key=30, versions=(1, 3), flexible=2):
    """The outcomes, in the order of the request."""

    throttle_time_ms: Int32 = field()
    results: list[AclCreationResult]
