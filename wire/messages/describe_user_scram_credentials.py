"""DescribeUserScramCredentials (key 50): which users have SCRAM credentials, never the credentials (KIP-554).

``mechanism``: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.

- 0: the whole of it.
"""

from __future__ import annotations

from stratalog.wire.schema import Int8, Int16, Int32, Message, Struct, field

__all__ = [
    "CredentialInfo",
    "DescribeUserScramCredentialsRequest",
    "DescribeUserScramCredentialsResponse",
    "DescribeUserScramCredentialsResult",
    "UserName",
]


class UserName(Struct):
    """One user."""

    name: str


class DescribeUserScramCredentialsRequest(Message, api_key=50, versions=(0, 0), flexible=0):
    """The users; null or none of them for all."""

    users: list[UserName] | None


class CredentialInfo(Struct):
    """One credential of a user."""

    mechanism: Int8
    iterations: Int32


class DescribeUserScramCredentialsResult(Struct):
    """The credentials of one user."""

    user: str
    error_code: Int16 = field()
    error_message: str | None = field()
    credential_infos: list[CredentialInfo]


class DescribeUserScramCredentialsResponse(Message, api_key=50, versions=(0, 0), flexible=0):
    """The users."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()
    results: list[DescribeUserScramCredentialsResult]
