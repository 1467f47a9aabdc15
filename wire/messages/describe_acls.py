"""DescribeAcls (key 29): the access rules that match a filter.

``resource_type``, ``operation``: as in the authorizer. ``pattern_type``: 1 any, 2 match, 3 literal, 4 prefixed.
``permission_type``: 1 any, 2 deny, 3 allow.

- 1: pattern types (KIP-290). 2: flexible. 3: the resource type for users (KIP-373).
"""

from __future__ import annotations

from stratalog.wire.schema import Int8, Int16, Int32, Message, Struct, field

__all__ = [
    "AclDescription",
    "DescribeAclsRequest",
    "DescribeAclsResource",
    "DescribeAclsResponse",
]


class DescribeAclsRequest(Message, api_key=29, versions=(1, 3), flexible=2):
    """The filter; null matches everything."""

    resource_type_filter: Int8
    resource_name_filter: str | None
    pattern_type_filter: Int8 = field(3)
    principal_filter: str | None
    host_filter: str | None
    operation: Int8
    permission_type: Int8


class AclDescription(Struct):
    """One rule."""

    principal: str
    host: str
    operation: Int8
    permission_type: Int8


class DescribeAclsResource(Struct):
    """The rules of one resource."""

    resource_type: Int8
    resource_name: str
    pattern_type: Int8 = field(3)
    acls: list[AclDescription]


class DescribeAclsResponse(Message, api_key=29, versions=(1, 3), flexible=2):
    """The rules, resource by resource."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()
    resources: list[DescribeAclsResource]
