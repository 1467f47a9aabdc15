"""Which bucket this is: an identity in its content, and a note of the last start that a broker made on it.

``format.json`` has ``bucket_id``, which a copy of the bucket shares (``aws s3 sync``) and an empty bucket, another prefix
or an unmounted file system has not. ``cluster.json`` has ``starts``: by broker and incarnation, the id of the last start
that has written here. A data directory remembers both. Another identity means another bucket; a start that the directory
does not remember means that the directory went back in time.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from crc32c import crc32c

from stratalog.tier.documents.json import parse_json
from stratalog.tier.documents.keys import FORMAT_KEY, cluster_key
from stratalog.tier.documents.unknown_fields import canonical_json
from stratalog.tier.manifests.manifest import ManifestLost
from stratalog.tier.messages.bucket_commands import LookAtBucket, SignBucket
from stratalog.tier.messages.projection import cluster_projection, format_projection
from stratalog.tier.messages.reports import BucketSeen
from stratalog.tier.stores.store import AlreadyExists, NotFound, ObjectStore, PreconditionFailed, Version
from stratalog.wire.errors import Corrupt, Retriable

__all__ = ["Verdict", "broker_name", "check_bucket", "judge_bucket", "look_at_bucket", "sign_bucket"]

_ATTEMPTS: Final = 16

Fields = dict[str, Any]


class Verdict(Enum):
    """Whether a bucket is the one that a data directory archives to."""

    RIGHT = "right"
    OTHER = "other"
    """It has another identity, or none although one is remembered."""
    STRANGER = "stranger"
    """No identity is remembered, but archives are, and the cluster never archived here."""


def judge_bucket(remembered_id: str, seen: BucketSeen, *, archives_known: bool) -> Verdict:
    """Compare a bucket with what a data directory remembers; pure.

    ``archives_known``: some partition of the directory has archived offsets. Directories and buckets of earlier releases
    have no identity: then the cluster's own document tells.
    """
    if remembered_id:
        return Verdict.RIGHT if seen.bucket_id == remembered_id else Verdict.OTHER
    return Verdict.STRANGER if archives_known and not seen.cluster_known else Verdict.RIGHT


def broker_name(node_id: int, incarnation: int) -> str:
    """A broker in ``starts``. A cluster that was taken over has another incarnation, and starts of its own."""
    return f"{node_id}@{incarnation}"


def look_at_bucket(store: ObjectStore, command: LookAtBucket) -> BucketSeen:
    """Two small documents. Raises `Corrupt` for one that is no JSON object, and what the store raises."""
    fields, _ = _document(store, FORMAT_KEY)
    return _seen(fields, _document(store, cluster_key(command.cluster_id))[0], command.broker)


def check_bucket(store: ObjectStore, bucket_id: str) -> None:
    """Raise `ManifestLost` if the bucket has another identity than ``bucket_id``, or none; empty is any. One small document.

    A bucket may be swapped while its broker runs: a file system is unmounted, or a bucket is deleted and made anew. Raises
    `Corrupt` as `look_at_bucket`, and what the store raises.
    """
    if not bucket_id:
        return
    found = _text(_document(store, FORMAT_KEY)[0], "bucket_id")
    if found != bucket_id:
        what = f"the identity {found}" if found else "no identity"
        raise ManifestLost(
            f"{store.url} is not the bucket that it was: it has {what}, not {bucket_id}. No archive begins or ends there: "
            "mount the right one again"
        )


def sign_bucket(store: ObjectStore, command: SignBucket) -> BucketSeen:
    """Write what is missing, by conditional writes, and say what stands there then.

    Fields of other writers stay. Raises `Corrupt` as `look_at_bucket`, `Retriable` after 16 lost races.
    """

    def named(held: Fields) -> Fields:
        return held if held.get("bucket_id") else {**format_projection().fields, **held, "bucket_id": command.bucket_id}

    def noted(held: Fields) -> Fields:
        known = _start(held, command.broker)
        if known == command.start_id or (known and known not in command.known_starts):
            return held
        starts = {**_starts(held), command.broker: command.start_id}
        fields = cluster_projection(command.cluster_id, command.incarnation).fields
        return {**fields, **held, "starts": starts}

    fields = _change(store, FORMAT_KEY, named)
    return _seen(fields, _change(store, cluster_key(command.cluster_id), noted), command.broker)


def _seen(bucket: Fields, cluster: Fields, broker: str) -> BucketSeen:
    return BucketSeen(_text(bucket, "bucket_id"), bool(cluster), _start(cluster, broker))


def _starts(cluster: Fields) -> Fields:
    starts = cluster.get("starts")
    return starts if isinstance(starts, dict) else {}


def _start(cluster: Fields, broker: str) -> str:
    return _text(_starts(cluster), broker)


def _text(fields: Fields, name: str) -> str:
    found = fields.get(name, "")
    return found if isinstance(found, str) else ""


def _document(store: ObjectStore, key: str) -> tuple[Fields, Version]:
    try:
        raw, version = store.get(key)
    except NotFound:
        return {}, ""
    try:
        fields = parse_json(raw, key)
    except Corrupt as error:
        raise Corrupt(f"{error}. Put it back, or remove it if no other broker uses it") from error
    if not isinstance(fields, dict):
        raise Corrupt(f"{key} is no JSON object. Put it back, or remove it if no other broker uses it")
    return fields, version


def _change(store: ObjectStore, key: str, change: Callable[[Fields], Fields]) -> Fields:
    for _ in range(_ATTEMPTS):
        held, version = _document(store, key)
        wanted = change(held)
        if wanted is held:
            return held
        data = canonical_json(wanted).encode("ascii")
        try:
            if version:
                store.compare_and_swap(key, data, version, crc32c=crc32c(data))
            else:
                store.put_if_absent(key, data, crc32c=crc32c(data))
        except (AlreadyExists, PreconditionFailed):
            continue
        return wanted
    raise Retriable(f"{key} was changed by others {_ATTEMPTS} times while it was written: try again")
