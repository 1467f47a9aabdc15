"""Producers' ids, transactions by both protocols, their markers and descriptions."""

from __future__ import annotations

from typing import Any

from tests.java.differ.requests import batch, fetch, produce, topic
from tests.java.differ.story import Ask, ByVersion, Known, Story

START = {"producer": "producer_id", "epoch": "producer_epoch"}


def begin(label: str, transactional_id: str | None, timeout_ms: int = 60_000, **body: Any) -> Ask:
    """Draws a producer id, or goes on with one; it is known as ``producer`` and ``epoch`` then."""
    kept = body.pop("kept", True)
    fields = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms, **body}
    return Ask("InitProducerId", fields, label, keep=START if kept else {})


def producing(transactional_id: str, producer: Any = None, epoch: Any = None) -> dict[str, Any]:
    """The fields that name a transactional producer."""
    return {
        "transactional_id": transactional_id,
        "producer_id": Known("producer") if producer is None else producer,
        "producer_epoch": Known("epoch") if epoch is None else epoch,
    }


def add(label: str, transactional_id: str, name: str, partition: int = 0, **own: Any) -> Ask:
    """Adds a partition, by the form of the version."""
    producer = producing(transactional_id, **own)
    topics = [{"name": name, "partitions": [partition]}]
    old = {f"v3_and_below_{key}": value for key, value in producer.items()}
    new = {"transactions": [{**producer, "topics": topics}]}
    return Ask("AddPartitionsToTxn", {**old, "v3_and_below_topics": topics, **new}, label)


def end(label: str, transactional_id: str, *, committed: bool = True, version: int | None = None, **own: Any) -> Ask:
    """Ends a transaction."""
    return Ask("EndTxn", {**producing(transactional_id, **own), "committed": committed}, label, version=version)


STARTED = Story(
    "producer ids",
    "InitProducerId",
    (
        begin("without transactions", None, kept=False),
        begin("first", "p-{v}"),
        begin("again", "p-{v}"),
        begin("goes on", "p-{v}", producer_id=Known("producer"), producer_epoch=Known("epoch"), kept=False),
        begin("older epoch", "p-{v}", producer_id=Known("producer"), producer_epoch=0, kept=False),
        begin("another producer", "p-{v}", producer_id=999_999, producer_epoch=0, kept=False),
        begin("empty id", "", kept=False),
        begin("no time", "p0-{v}", 0, kept=False),
        begin("negative time", "p0-{v}", -1, kept=False),
        begin("too much time", "p0-{v}", 2_000_000_000, kept=False),
        begin("producer without an epoch", "p1-{v}", producer_id=5, producer_epoch=-1, kept=False),
        begin("epoch without a producer", "p1-{v}", producer_id=-1, producer_epoch=5, kept=False),
        begin("goes on without transactions", None, producer_id=999_999, producer_epoch=3, kept=False),
    ),
)

ADDED = Story(
    "partitions in transactions",
    "AddPartitionsToTxn",
    (
        topic("a-{v}"),
        begin("begin", "a-{v}"),
        add("one", "a-{v}", "a-{v}"),
        add("again", "a-{v}", "a-{v}"),
        add("unknown partition", "a-{v}", "a-{v}", 7),
        add("unknown topic", "a-{v}", "nowhere-{v}"),
        add("older epoch", "a-{v}", "a-{v}", epoch=-1),
        add("newer epoch", "a-{v}", "a-{v}", epoch=9),
        add("another producer", "a-{v}", "a-{v}", producer=999_999),
        add("unknown id", "nowhere-{v}", "a-{v}"),
        add("empty id", "", "a-{v}"),
        end("end", "a-{v}", version=3),
    ),
)

VERIFIED = Story(
    "verified partitions",
    "AddPartitionsToTxn",
    (
        topic("vf-{v}"),
        begin("begin", "vf-{v}"),
        *(
            Ask(
                "AddPartitionsToTxn",
                {
                    "transactions": [
                        {
                            **producing("vf-{v}"),
                            "verify_only": verify,
                            "topics": [{"name": "vf-{v}", "partitions": [0]}],
                        }
                    ]
                },
                label,
            )
            for label, verify in (("not there", True), ("added", False), ("there", True))
        ),
    ),
    versions=(4, 5),
)

OFFSETS = Story(
    "offsets in transactions",
    "AddOffsetsToTxn",
    (
        begin("begin", "o-{v}"),
        Ask("AddOffsetsToTxn", {**producing("o-{v}"), "group_id": "og-{v}"}, "good"),
        Ask("AddOffsetsToTxn", {**producing("o-{v}"), "group_id": ""}, "empty group"),
        Ask("AddOffsetsToTxn", {**producing("o-{v}", epoch=-1), "group_id": "og-{v}"}, "older epoch"),
        Ask("AddOffsetsToTxn", {**producing("nowhere-{v}"), "group_id": "og-{v}"}, "unknown id"),
        Ask("AddOffsetsToTxn", {**producing(""), "group_id": "og-{v}"}, "empty id"),
    ),
)


def commit_offset(label: str, name: str, partition: int = 0, **body: Any) -> Ask:
    """Commits an offset inside a transaction."""
    place = {"partition_index": partition, "committed_offset": 3, "committed_metadata": ""}
    fields = {**producing("t-{v}"), "group_id": "tg-{v}", "topics": [{"name": name, "partitions": [place]}]}
    return Ask("TxnOffsetCommit", {**fields, **body}, label)


COMMITTED = Story(
    "committed in transactions",
    "TxnOffsetCommit",
    (
        topic("t-{v}"),
        begin("begin", "t-{v}"),
        commit_offset("before it was added", "t-{v}"),
        Ask("AddOffsetsToTxn", {**producing("t-{v}"), "group_id": "tg-{v}"}, "added"),
        commit_offset("good", "t-{v}"),
        commit_offset("unknown partition", "t-{v}", 7),
        commit_offset("unknown topic", "nowhere-{v}"),
        commit_offset("older epoch", "t-{v}", producer_epoch=-1),
        commit_offset("unknown member", "t-{v}", member_id="absent", generation_id=1),
        commit_offset("unknown generation", "t-{v}", generation_id=5),
        commit_offset("empty group", "t-{v}", group_id=""),
        Ask(
            "OffsetFetch",
            {"groups": [{"group_id": "tg-{v}", "topics": None}], "require_stable": True},
            "pending",
            version=9,
        ),
    ),
)

ENDED = Story(
    "ended transactions",
    "EndTxn",
    (
        topic("n-{v}"),
        begin("begin", "n-{v}"),
        end("nothing to commit", "n-{v}"),
        end("nothing to abort", "n-{v}", committed=False),
        end("older epoch", "n-{v}", epoch=-1),
        end("newer epoch", "n-{v}", epoch=90),
        end("another producer", "n-{v}", producer=999_999),
        end("unknown id", "nowhere-{v}"),
        end("empty id", ""),
    ),
)


def transactional(label: str, name: str, transactional_id: str | None, **numbers: int) -> Ask:
    """A transactional batch of a producer whose id the story gives."""
    given = {"producer_id": 500_000, "producer_epoch": 0, "base_sequence": 0, **numbers}
    return produce(name, batch(b"a", transactional=True, **given), label, body={"transactional_id": transactional_id})


APPENDED = Story(
    "appended in transactions",
    "Produce",
    (
        topic("tx-{v}"),
        begin("begin", "tx-{v}"),
        transactional("unknown producer", "tx-{v}", "tx-{v}"),
        transactional("no id", "tx-{v}", None),
        transactional("unknown id", "tx-{v}", "nowhere-{v}"),
        produce("tx-{v}", batch(b"a"), "not transactional, with an id", body={"transactional_id": "tx-{v}"}),
        fetch("tx-{v}", 0, "everything", isolation_level=1),
    ),
)

MARKED = Story(
    "written markers",
    "WriteTxnMarkers",
    (
        topic("w-{v}"),
        *(
            Ask(
                "WriteTxnMarkers",
                {
                    "markers": [
                        {
                            "producer_id": 700_000,
                            "producer_epoch": 0,
                            "transaction_result": committed,
                            "topics": [{"name": name, "partition_indexes": [partition]}],
                            "coordinator_epoch": 0,
                        }
                    ]
                },
                label,
            )
            for label, name, partition, committed in (
                ("commit", "w-{v}", 0, True),
                ("abort", "w-{v}", 0, False),
                ("unknown partition", "w-{v}", 9, True),
                ("unknown topic", "nowhere-{v}", 0, True),
            )
        ),
        Ask("WriteTxnMarkers", {}, "none"),
        fetch("w-{v}", 0, "everything"),
    ),
)

DESCRIBED = Story(
    "described transactions",
    "DescribeTransactions",
    (
        topic("dt"),
        begin("begin", "dt"),
        Ask("DescribeTransactions", {"transactional_ids": ["dt"]}, "empty"),
        add("added", "dt", "dt"),
        Ask("DescribeTransactions", {"transactional_ids": ["dt"]}, "ongoing"),
        Ask("DescribeTransactions", {"transactional_ids": ["nowhere"]}, "unknown"),
        Ask("DescribeTransactions", {"transactional_ids": [""]}, "empty name"),
        Ask("DescribeTransactions", {}, "none"),
    ),
)

LISTED = Story(
    "listed transactions",
    "ListTransactions",
    (
        Ask("ListTransactions", {"state_filters": ["Ongoing"], "transactional_id_pattern": "dt"}, "ongoing"),
        Ask("ListTransactions", {"state_filters": ["Dead"]}, "dead"),
        Ask("ListTransactions", {"state_filters": ["no-such-state", "Dead"]}, "unknown state"),
        Ask("ListTransactions", {"producer_id_filters": [987_654_321]}, "unknown producer"),
        Ask("ListTransactions", {"producer_id_filters": [987_654_321], "duration_filter": 1 << 40}, "long ones"),
        Ask("ListTransactions", {"state_filters": ["Dead"], "transactional_id_pattern": "nothing.*"}, "pattern"),
        Ask(
            "ListTransactions",
            {"state_filters": ["Dead"], "transactional_id_pattern": ByVersion(lambda v: "(" if v >= 2 else None)},
            "bad pattern",
        ),
    ),
)

STORIES = (STARTED, ADDED, VERIFIED, OFFSETS, COMMITTED, ENDED, APPENDED, MARKED, DESCRIBED, LISTED)
