"""The delegation tokens of the cluster, as an immutable value. Sources: Kafka's ``DelegationTokenImage``; KIP-48.

This broker gives out no tokens and takes none. Those that an Apache Kafka controller has written are kept, so that a
snapshot made here does not lose them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct, field

from stratalog.metadata.maps.persistent_map import changed
from stratalog.wire.records.metadata import DelegationTokenRecord

__all__ = ["DelegationToken", "TokensImage"]


class DelegationToken(NamedTuple):
    """The facts about one token, without its secret. Principals are texts like ``User:a``, times in ms."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int

    @classmethod
    def of(cls, record: DelegationTokenRecord) -> DelegationToken:
        """The token of a record."""
        return cls(
            owner=record.owner,
            requester=record.requester,
            renewers=tuple(record.renewers),
            issue_timestamp=record.issue_timestamp,
            max_timestamp=record.max_timestamp,
            expiration_timestamp=record.expiration_timestamp,
        )


class TokensImage(Struct, frozen=True):
    """The tokens by id. A change costs the same however many tokens there are."""

    by_id: Mapping[str, DelegationToken] = field(default_factory=lambda: MappingProxyType({}))

    def with_record(self, record: DelegationTokenRecord) -> TokensImage:
        """The image with a token set, or renewed."""
        return TokensImage(changed(self.by_id, {record.token_id: DelegationToken.of(record)}))

    def without(self, token_id: str) -> TokensImage:
        """The image without one token. To remove one that is not there changes nothing, as in Kafka."""
        return TokensImage(changed(self.by_id, {}, (token_id,))) if token_id in self.by_id else self

    def to_records(self) -> Iterator[DelegationTokenRecord]:
        """The records that make this image from nothing."""
        for token_id, token in self.by_id.items():
            facts = token._asdict() | {"renewers": list(token.renewers)}
            yield DelegationTokenRecord(token_id=token_id, **facts)
