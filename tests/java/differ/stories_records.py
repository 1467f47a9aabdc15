"""Records: appended, read, looked for by offset, time and epoch."""

from __future__ import annotations

from typing import Any

from stratalog.wire.compression import Codec
from tests.java.differ.requests import START_MS, batch, fetch, produce, produce_all, topic
from tests.java.differ.story import Ask, ByVersion, Known, Story, TopicId

UNKNOWN_ID = bytes(range(16))

APPENDED = Story(
    "appended records",
    "Produce",
    (
        topic("appended-{v}", 2),
        topic("stamped-{v}", 1, message_timestamp_type="LogAppendTime"),
        topic("safe-{v}", 1, min_insync_replicas="2"),
        produce("safe-{v}", batch(b"a"), "more replicas asked for than there are"),
        produce("appended-{v}", batch(b"a", b"b"), "acks all"),
        produce("appended-{v}", batch(b"c"), "acks one", acks=1),
        produce("appended-{v}", batch(b"d"), "acks none", acks=0, answered=False),
        produce("appended-{v}", batch(b"e", key=b"k"), "with a key"),
        produce("appended-{v}", batch(None, key=b"k"), "tombstone"),
        produce("stamped-{v}", batch(b"a", b"b"), "time of the broker"),
        *(produce("appended-{v}", batch(b"x" * 100, b"y" * 100, codec=codec), codec.name.lower()) for codec in Codec),
        produce_all({("appended-{v}", 0): batch(b"f"), ("appended-{v}", 1): batch(b"g")}, "two partitions"),
        produce("appended-{v}", batch(b"h"), "acks 2", acks=2),
        produce("appended-{v}", batch(b"h"), "acks -2", acks=-2),
        produce("appended-{v}", batch(b"h"), "unknown partition", partition=7),
        produce("appended-{v}", batch(b"h"), "negative partition", partition=-1),
        produce_all({}, "nothing"),
        Ask(
            "Produce",
            {
                "acks": -1,
                "timeout_ms": 1000,
                "topic_data": [
                    {
                        "name": "nowhere-{v}",
                        "topic_id": UNKNOWN_ID,
                        "partition_data": [{"index": 0, "records": batch(b"h")}],
                    }
                ],
            },
            "unknown topic",
        ),
        fetch("appended-{v}", 0, "everything"),
        fetch("appended-{v}", 0, "everything of the other", partition=1),
    ),
)


def idempotent(label: str, sequence: int, *values: bytes, epoch: int = 0, producer_id: int = 987_654) -> Ask:
    """A batch with a producer's own numbers."""
    records = batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return produce("numbered-{v}", records, label)


NUMBERED = Story(
    "numbered batches",
    "Produce",
    (
        topic("numbered-{v}"),
        idempotent("first", 0, b"a", b"b"),
        idempotent("again", 0, b"a", b"b"),
        idempotent("second", 2, b"c"),
        idempotent("a gap", 7, b"d"),
        idempotent("overlaps", 1, b"b", b"c"),
        idempotent("older epoch", 3, b"d", epoch=-1),
        idempotent("newer epoch, not from zero", 3, b"d", epoch=1),
        idempotent("newer epoch", 0, b"d", epoch=1),
        idempotent("epoch of before", 3, b"d", epoch=0),
        idempotent("an unknown producer, not from zero", 5, b"e", producer_id=123_456),
        *(idempotent(f"many {number}", number, b"f", epoch=2) for number in range(7)),
        idempotent("one of the last five", 3, b"f", epoch=2),
        idempotent("one older than five", 0, b"f", epoch=2),
        Ask("DescribeProducers", {"topics": [{"name": "numbered-{v}", "partition_indexes": [0]}]}, "producers"),
        fetch("numbered-{v}", 0, "everything"),
    ),
)

PRODUCERS = Story(
    "described producers",
    "DescribeProducers",
    (
        topic("none-yet"),
        Ask("DescribeProducers", {"topics": [{"name": "none-yet", "partition_indexes": [0, 1]}]}, "none"),
        Ask("DescribeProducers", {"topics": [{"name": "nowhere", "partition_indexes": [0]}]}, "unknown"),
        Ask("DescribeProducers", {"topics": [{"name": "a b", "partition_indexes": [0]}]}, "bad name"),
        Ask("DescribeProducers", {}, "no topics"),
    ),
)

READ = Story(
    "read records",
    "Fetch",
    (
        topic("read-{v}", 2),
        produce("read-{v}", batch(b"a", b"b", b"c")),
        produce("read-{v}", batch(b"d", b"e")),
        fetch("read-{v}", 0, "from the start"),
        fetch("read-{v}", 1, "inside a batch"),
        fetch("read-{v}", 3, "at a border"),
        fetch("read-{v}", 5, "at the end"),
        fetch("read-{v}", 6, "behind the end"),
        fetch("read-{v}", -1, "before zero"),
        fetch("read-{v}", 0, "an empty partition", partition=1),
        fetch("read-{v}", 0, "unknown partition", partition=9),
        fetch("read-{v}", 0, "committed", isolation_level=1),
        fetch("read-{v}", 0, "bad isolation", isolation_level=7),
        fetch("read-{v}", 0, "no bytes", max_bytes=0),
        fetch("read-{v}", 0, "newer epoch", current_leader_epoch=7),
        fetch("read-{v}", 0, "epoch of now", current_leader_epoch=0),
        fetch("read-{v}", 0, "last fetched epoch of now", current_leader_epoch=0, last_fetched_epoch=0),
        fetch("read-{v}", 9, "behind the end, with an epoch", current_leader_epoch=0, last_fetched_epoch=0),
        fetch("read-{v}", 0, "newer last fetched epoch", current_leader_epoch=0, last_fetched_epoch=9),
        fetch("read-{v}", 0, "log start of a client", log_start_offset=2),
        Ask("Fetch", {"max_wait_ms": 0, "min_bytes": 0}, "nothing"),
        Ask(
            "Fetch",
            {
                "max_wait_ms": 0,
                "min_bytes": 0,
                "topics": [
                    {
                        "topic": "nowhere-{v}",
                        "topic_id": UNKNOWN_ID,
                        "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}],
                    }
                ],
            },
            "unknown topic",
        ),
        Ask(
            "Fetch",
            {
                "max_wait_ms": 0,
                "min_bytes": 0,
                "topics": [
                    {
                        "topic": "read-{v}",
                        "topic_id": TopicId("read-{v}"),
                        "partitions": [{"partition": at, "fetch_offset": 0, "partition_max_bytes": 1} for at in (1, 0)],
                    }
                ],
            },
            "few bytes",
        ),
        Ask("DeleteRecords", {"topics": [{"name": "read-{v}", "partitions": [{"partition_index": 0, "offset": 2}]}]}),
        fetch("read-{v}", 1, "below the start"),
        fetch("read-{v}", 2, "at the start"),
    ),
)


def in_session(label: str, session: Any, epoch: int, *places: tuple[str, int, int], **body: Any) -> Ask:
    """A fetch of a session."""
    partitions: dict[str, list[dict[str, Any]]] = {}
    for name, at, offset in places:
        place = {"partition": at, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        partitions.setdefault(name, []).append(place)
    topics = [{"topic": name, "topic_id": TopicId(name), "partitions": held} for name, held in partitions.items()]
    fields = {"session_id": session, "session_epoch": epoch, "topics": topics, **body}
    keep = {"session": "session_id"} if label == "begin" else {}
    return Ask("Fetch", {"max_wait_ms": 0, "min_bytes": 0, **fields}, label, keep=keep)


def forget(name: str) -> dict[str, Any]:
    """Takes partition 0 of a topic out of a session."""
    return {"forgotten_topics_data": [{"topic": name, "topic_id": TopicId(name), "partitions": [0]}]}


SESSIONS = Story(
    "fetch sessions",
    "Fetch",
    (
        topic("held-{v}", 2),
        produce("held-{v}", batch(b"a")),
        in_session("begin", 0, 0, ("held-{v}", 0, 0), ("held-{v}", 1, 0)),
        in_session("same again", Known("session"), 1),
        in_session("go on", Known("session"), 2, ("held-{v}", 0, 1)),
        in_session("nothing new", Known("session"), 3),
        produce("held-{v}", batch(b"b"), "one more"),
        in_session("news", Known("session"), 4),
        in_session("forget", Known("session"), 5, **forget("held-{v}")),
        in_session("forgotten", Known("session"), 6),
        in_session("wrong epoch", Known("session"), 3),
        in_session("unknown session", 123, 1),
        in_session("unknown partition", Known("session"), 7, ("held-{v}", 9, 0)),
        in_session("close", Known("session"), -1),
        in_session("closed", Known("session"), 8),
        in_session("none", 0, -1, ("held-{v}", 0, 0)),
    ),
    versions=tuple(range(7, 19)),
)


def at_time(label: str, name: str, timestamp: int, *, partition: int = 0, **body: Any) -> Ask:
    """Looks for an offset by time."""
    epoch = {"current_leader_epoch": body.pop("epoch")} if "epoch" in body else {}
    place = {"partition_index": partition, "timestamp": timestamp, **epoch}
    topics = [{"name": name, "partitions": [place]}]
    return Ask("ListOffsets", {"replica_id": -1, "topics": topics, "timeout_ms": 1000, **body}, label)


TIMES = Story(
    "offsets by time",
    "ListOffsets",
    (
        topic("timed-{v}", 2),
        produce("timed-{v}", batch(b"a", b"b", b"c")),
        produce("timed-{v}", batch(b"d", timestamp_ms=START_MS + 1_000)),
        at_time("latest", "timed-{v}", -1),
        at_time("earliest", "timed-{v}", -2),
        *(at_time(f"special {-kind}", "timed-{v}", kind) for kind in (-3, -4, -5, -6, -7)),
        *(at_time(f"empty, special {-kind}", "timed-{v}", kind, partition=1) for kind in (-1, -2, -3, -4, -5, -6)),
        at_time("first", "timed-{v}", START_MS),
        at_time("inside", "timed-{v}", START_MS + 1),
        at_time("between", "timed-{v}", START_MS + 500),
        at_time("too late", "timed-{v}", START_MS + 5_000),
        at_time("too early", "timed-{v}", 0),
        at_time("committed", "timed-{v}", -1, isolation_level=1),
        at_time("bad isolation", "timed-{v}", -1, isolation_level=9),
        at_time("unknown partition", "timed-{v}", -1, partition=9),
        at_time("unknown topic", "nowhere-{v}", -1),
        at_time("newer epoch", "timed-{v}", -1, epoch=8),
        at_time("epoch of now", "timed-{v}", -1, epoch=0),
        at_time("as a replica", "timed-{v}", -1, replica_id=1),
        at_time("as a debugger", "timed-{v}", -1, replica_id=-2),
        Ask("ListOffsets", {"replica_id": -1}, "none"),
        Ask(
            "ListOffsets",
            {
                "replica_id": -1,
                "topics": [{"name": "timed-{v}", "partitions": [{"partition_index": 0, "timestamp": -1}] * 2}],
            },
            "twice",
        ),
    ),
)


def epoch_end(label: str, name: str, partition: int, epoch: int, current: int = -1) -> Ask:
    """Asks where an epoch ends."""
    place = {"partition": partition, "leader_epoch": epoch, "current_leader_epoch": current}
    return Ask("OffsetForLeaderEpoch", {"topics": [{"topic": name, "partitions": [place]}]}, label)


EPOCHS = Story(
    "ends of epochs",
    "OffsetForLeaderEpoch",
    (
        topic("epochs-{v}", 2),
        produce("epochs-{v}", batch(b"a", b"b")),
        epoch_end("now", "epochs-{v}", 0, 0),
        epoch_end("later", "epochs-{v}", 0, 5),
        epoch_end("none", "epochs-{v}", 0, -1),
        epoch_end("empty", "epochs-{v}", 1, 0),
        epoch_end("current", "epochs-{v}", 0, 0, 0),
        epoch_end("newer", "epochs-{v}", 0, 0, 3),
        epoch_end("unknown partition", "epochs-{v}", 9, 0),
        epoch_end("unknown topic", "nowhere-{v}", 0, 0),
        Ask("OffsetForLeaderEpoch", {"replica_id": ByVersion(lambda v: 1 if v >= 3 else -2), "topics": []}, "nothing"),
    ),
)

STORIES = (APPENDED, NUMBERED, PRODUCERS, READ, SESSIONS, TIMES, EPOCHS)
