"""Which bucket this is, and which start wrote there last."""

from __future__ import annotations

import json

import pytest

from stratalog.tier.documents.keys import FORMAT_KEY, cluster_key
from stratalog.tier.messages.bucket_commands import LookAtBucket, SignBucket
from stratalog.tier.messages.projection import cluster_projection, format_projection, write_projection
from stratalog.tier.messages.reports import BucketSeen
from stratalog.tier.work.bucket_identity import Verdict, broker_name, judge_bucket, look_at_bucket, sign_bucket
from stratalog.wire.errors import Corrupt

BROKER = broker_name(1, 0)
LOOK = LookAtBucket("c", BROKER)
EMPTY = BucketSeen("", False, "")


def sign(store, bucket_id="id", start_id="s1", known=()):
    """Sign a bucket as a start of broker 1."""
    return sign_bucket(store, SignBucket("c", BROKER, bucket_id, 0, start_id, tuple(known)))


@pytest.mark.parametrize(
    ("remembered", "seen", "archives_known", "verdict"),
    [
        ("", EMPTY, False, Verdict.RIGHT),
        ("", EMPTY, True, Verdict.STRANGER),
        ("", BucketSeen("id", False, ""), True, Verdict.STRANGER),
        ("", BucketSeen("", True, ""), True, Verdict.RIGHT),
        ("", BucketSeen("id", False, ""), False, Verdict.RIGHT),
        ("id", BucketSeen("id", False, ""), True, Verdict.RIGHT),
        ("id", BucketSeen("other", True, ""), True, Verdict.OTHER),
        ("id", EMPTY, False, Verdict.OTHER),
        ("id", BucketSeen("", True, ""), True, Verdict.OTHER),
    ],
    ids=[
        "new directory, new bucket",
        "old directory, empty bucket",
        "old directory, another cluster's bucket",
        "old directory, its own old bucket",
        "new directory, used bucket",
        "the same",
        "another one",
        "an empty one",
        "one that lost its identity",
    ],
)
def test_a_bucket_is_judged_by_what_is_remembered(remembered, seen, archives_known, verdict):
    """Directories and buckets of earlier releases are taken over only where the cluster has archived there."""
    assert judge_bucket(remembered, seen, archives_known=archives_known) is verdict


def test_an_empty_bucket_is_signed_once(memory_store):
    """A later broker finds the identity of the first."""
    assert look_at_bucket(memory_store, LOOK) == EMPTY
    assert sign(memory_store) == BucketSeen("id", True, "s1")
    assert sign(memory_store, "second", "s2", ["s1"]) == BucketSeen("id", True, "s2")
    assert look_at_bucket(memory_store, LOOK) == BucketSeen("id", True, "s2")


def test_a_start_that_is_not_known_is_not_written_over(memory_store):
    """It is the only proof that a directory went back in time."""
    sign(memory_store)
    assert sign(memory_store, start_id="s2", known=["s0"]).start_id == "s1"
    assert look_at_bucket(memory_store, LookAtBucket("c", broker_name(1, 1))).start_id == ""


def test_an_old_bucket_gains_an_identity_and_keeps_all_else(memory_store):
    """Documents of earlier releases, and fields of other writers, stay; later projections keep the identity."""
    write_projection(memory_store, format_projection())
    write_projection(memory_store, cluster_projection("c", 0))
    held = json.loads(memory_store.get(FORMAT_KEY)[0])
    memory_store.put(FORMAT_KEY, json.dumps({**held, "other": 1}).encode())
    sign(memory_store)
    write_projection(memory_store, format_projection())
    write_projection(memory_store, cluster_projection("c", 3))
    assert json.loads(memory_store.get(FORMAT_KEY)[0]) == {**held, "other": 1, "bucket_id": "id"}
    assert json.loads(memory_store.get(cluster_key("c"))[0])["incarnation"] == 3
    assert look_at_bucket(memory_store, LOOK) == BucketSeen("id", True, "s1")


@pytest.mark.parametrize("raw", [b"nonsense", b"[1]"])
def test_a_damaged_document_is_left_alone(memory_store, raw):
    """No bucket is guessed."""
    memory_store.put(FORMAT_KEY, raw)
    with pytest.raises(Corrupt):
        look_at_bucket(memory_store, LOOK)
    with pytest.raises(Corrupt):
        sign(memory_store)
    assert memory_store.get(FORMAT_KEY)[0] == raw


def test_strange_fields_count_as_none(memory_store):
    """They were written by another program."""
    memory_store.put(FORMAT_KEY, b'{"bucket_id": 5}')
    memory_store.put(cluster_key("c"), b'{"starts": [1]}')
    assert look_at_bucket(memory_store, LOOK) == BucketSeen("", True, "")
