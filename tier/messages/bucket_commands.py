"""Commands about the bucket as a whole (`tier.messages.commands` has all others)."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["LookAtBucket", "SignBucket"]


class LookAtBucket(Struct, frozen=True):
    """Read which bucket this is, and what it knows of a cluster's broker; answered by `BucketSeen`.

    ``broker`` names one broker in one incarnation of the cluster (`tier.work.bucket_identity.broker_name`).
    """

    cluster_id: str
    broker: str


class SignBucket(Struct, frozen=True):
    """Give the bucket an identity if it has none, and note this start of the broker; answered by `BucketSeen`.

    The note is written over none but one of ``known_starts``.
    """

    cluster_id: str
    broker: str
    bucket_id: str
    incarnation: int
    start_id: str
    known_starts: tuple[str, ...]
