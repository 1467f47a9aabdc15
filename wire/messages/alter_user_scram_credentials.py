"""AlterUserScramCredentials (key 51): set and delete SCRAM credentials (KIP-554).

``mechanism``: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.

- 0: the whole of it.
"""

from __future__ import annotations

from stratalog.wire.schema import Int8, Int16, Int32, Message, Struct, field

__all__ = [
    "AlterUserScramCredentialsRequest",
    "AlterUserScramCredentialsResponse",
    "AlterUserScramCredentialsResult",
    "ScramCredentialDeletion",
    "ScramCredentialUpsertion",
]


class ScramCredentialDeletion(Struct):
    """One credential that is to go."""

    name: str
    mechanism: Int8


class ScramCredentialUpsertion(Struct):
    """One credential that is to be there, already salted and hashed by the client."""

    name: str
    mechanism: Int8
    iterations: Int32
    salt: bytes
    salted_password: bytes


class AlterUserScramCredentialsRequest(Message, api_key=51, versions=(0, 0), flexible=0):
    """The changes; a user stands in it once."""

    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


class AlterUserScramCredentialsResult(Struct):
    """The outcome for one user."""

    user: str
    error_code: Int16 = field()
    error_message: str | None = field()


class AlterUserScramCredentialsResponse(Message, api_key=51, versions=(0, 0), flexible=0):
    """The outcomes."""

    throttle_time_ms: Int32 = field()
    results: list[AlterUserScramCredentialsResult]
