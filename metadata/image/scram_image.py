"""The SCRAM credentials of users, as an immutable value. Sources: Kafka's ``ScramImage``; KIP-554, KIP-900, RFC 5802.

Passwords are not here: a credential can check one and cannot be turned into one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct, field

from stratalog.metadata.maps.persistent_map import changed
from stratalog.wire.errors import Corrupt
from stratalog.wire.records.metadata import UserScramCredentialRecord

__all__ = ["ScramCredential", "ScramImage", "ScramMechanism"]


class ScramMechanism(IntEnum):
    """The hash of a credential; the numbers are Kafka's."""

    SHA_256 = 1
    SHA_512 = 2


class ScramCredential(NamedTuple):
    """The facts a broker keeps to check one user's password by one mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def of(cls, record: UserScramCredentialRecord) -> ScramCredential:
        """The credential of a record."""
        return cls(bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations)

    def __repr__(self) -> str:
        return "ScramCredential(hidden)"


class ScramImage(Struct, frozen=True):
    """The credentials by user and mechanism. A change costs the same however many users there are."""

    by_user: Mapping[str, Mapping[int, ScramCredential]] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, user: str) -> Mapping[int, ScramCredential]:
        """The credentials of one user by mechanism; empty for one who has none."""
        return self.by_user.get(user, MappingProxyType({}))

    def with_credential(self, user: str, mechanism: int, credential: ScramCredential) -> ScramImage:
        """The image with a credential set."""
        mine = MappingProxyType({**self.of(user), mechanism: credential})
        return ScramImage(changed(self.by_user, {user: mine}))

    def without(self, user: str, mechanism: int) -> ScramImage:
        """The image without one credential. Raises `Corrupt` if it is not there."""
        if mechanism not in self.of(user):
            raise Corrupt(f"a RemoveUserScramCredentialRecord for mechanism {mechanism} of a user without one")
        left = {number: each for number, each in self.of(user).items() if number != mechanism}
        if left:
            return ScramImage(changed(self.by_user, {user: MappingProxyType(left)}))
        return ScramImage(changed(self.by_user, {}, (user,)))

    def to_records(self) -> Iterator[UserScramCredentialRecord]:
        """The records that make this image from nothing."""
        for user, credentials in self.by_user.items():
            for mechanism, each in credentials.items():
                yield UserScramCredentialRecord(name=user, mechanism=mechanism, **each._asdict())
