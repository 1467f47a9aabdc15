"""DeleteAcls (key 31): remove the access rules that match filters; the numbers are those of DescribeAcls.

- 1: pattern types (KIP-290). 2: flexible. 3: the resource type for users (KIP-373).
"""

from __future__ import annotations

from stratalog.wire.schema import Int8, Int16, Int32, Message, Struct, field

__all__ = [
    "DeleteAclsFilter",
    "DeleteAclsFilterResult",
    "DeleteAclsMatchingAcl",
    "DeleteAclsRequest",
    "DeleteAclsResponse",
]


class DeleteAclsFilter(Struct):
    """One filter; null matches everything."""

    resource_type_filter: Int8
    resource_name_filter: str | None
    pattern_type_filter: Int8 = field(3)
    principal_filter: str | None
    host_filter: str | None
    operation: Int8
    permission_type: Int8


class DeleteAclsRequest(Message, api_key=31, versions=(1, 3), flexible=2):
    """The filters."""

    filters: list[DeleteAclsFilter]


class DeleteAclsMatchingAcl(Struct):
    """One rule that was removed."""

    error_code: Int16 = field()
    error_message: str | None = field()
    resource_type: Int8
    resource_name: str
    pattern_type: Int8 = field(3)
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


class DeleteAclsFilterResult(Struct):
    """The bindings that one filter has removed."""

    error_code: Int16 = field()
    error_message: str | None = field()
    matching_acls: list[DeleteAclsMatchingAcl]


class DeleteAclsResponse(Message, api_key=31, versions=(1, 3), flexible=2):
    """The outcomes, in the order of the request."""

    throttle_time_ms: Int32 = field()
    filter_results: list[DeleteAclsFilterResult]
