"""Records of ``__cluster_metadata`` about users: rules of access, credentials, delegation tokens, quotas.

They are read and written as all others: `stratalog.wire.records.metadata` has the frame. Sources: KIP-801 (rules),
KIP-900 (credentials), KIP-48 (tokens), KIP-546 (quotas).
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Float64, Int8, Int32, Int64, Message, Struct, Uuid

__all__ = [
    "AccessControlEntryRecord",
    "ClientQuotaRecord",
    "DelegationTokenRecord",
    "QuotaEntityData",
    "RemoveAccessControlEntryRecord",
    "RemoveDelegationTokenRecord",
    "RemoveUserScramCredentialRecord",
    "UserScramCredentialRecord",
]


class AccessControlEntryRecord(Message, api_key=18, versions=(0, 0), flexible=0):
    """A rule of access (KIP-801); the numbers are those of the API DescribeAcls."""

    id: Uuid
    resource_type: Int8
    resource_name: str
    pattern_type: Int8
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


class RemoveAccessControlEntryRecord(Message, api_key=19, versions=(0, 0), flexible=0):
    """A rule of access is gone."""

    id: Uuid


class UserScramCredentialRecord(Message, api_key=11, versions=(0, 0), flexible=0):
    """A user's SCRAM credential, without the password. ``mechanism``: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512 (KIP-900)."""

    name: str
    mechanism: Int8
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: Int32


class RemoveUserScramCredentialRecord(Message, api_key=22, versions=(0, 0), flexible=0):
    """A user has a SCRAM credential no longer."""

    name: str
    mechanism: Int8


class QuotaEntityData(Struct):
    """One part of what a quota is set for: a type and a name, null for the default of the type."""

    entity_type: str
    entity_name: str | None


class ClientQuotaRecord(Message, api_key=14, versions=(0, 0), flexible=0):
    """A quota is set, or with ``remove`` no longer set, whatever ``value`` says then (KIP-546)."""

    entity: list[QuotaEntityData]
    key: str
    value: Float64
    remove: Bool


class DelegationTokenRecord(Message, api_key=10, versions=(0, 0), flexible=0):
    """A delegation token, without its secret (KIP-48). Principals are texts like ``User:a``, times in ms.

    ``expiration_timestamp`` is when the token must be renewed, ``max_timestamp`` when that is no longer possible.
    """

    owner: str
    requester: str
    renewers: list[str]
    issue_timestamp: Int64
    max_timestamp: Int64
    expiration_timestamp: Int64
    token_id: str


class RemoveDelegationTokenRecord(Message, api_key=26, versions=(0, 0), flexible=0):
    """A delegation token is gone."""

    token_id: str
