"""Keys and codes of what one task reads."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from stratalog.spark.rewrite import newest_keys as module
from stratalog.spark.rewrite.filter import split_unread
from stratalog.spark.rewrite.newest_keys import (
    KEY_SCHEMA,
    KeyRequest,
    UnreadBatches,
    newest,
    newest_keys,
    read_newest,
)
from stratalog.spark.rows.schema import DELETE_HORIZON, TOMBSTONE
from stratalog.tier.planning.slices import OffsetRange, slice_entry
from stratalog.wire.topic import TopicPartition

REQUEST = KeyRequest("memory:keys", 1_000, {0: 50})


def rows(*given: tuple[bytes | None, int, bool, int]) -> pa.RecordBatch:
    names = ("key", "offset", TOMBSTONE, DELETE_HORIZON)
    types = (pa.binary(), pa.int64(), pa.bool_(), pa.int64())
    columns = zip(*given, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)], names=list(names)
    )


def found(batches: Iterator[pa.RecordBatch]) -> list[tuple[int, bytes, int]]:
    table = pa.Table.from_batches(batches, KEY_SCHEMA)
    return sorted(zip(*(table.column(name).to_pylist() for name in KEY_SCHEMA.names), strict=True))


def test_codes_say_which_tombstones_ask_for_a_rewrite() -> None:
    """Those without a horizon, and those below the clean offset whose horizon is over; records without keys are left out."""
    batch = rows(
        (b"new", 1, True, -1), (b"due", 2, True, 1_000), (b"early", 3, True, 1_001), (b"above", 50, True, 5),
        (b"value", 60, False, -1), (None, 61, False, -1), (b"due", 70, False, 5),
    )  # fmt: skip
    assert found(read_newest(iter([batch]), 3, KeyRequest("memory:keys", 1_000, {3: 50}))) == [
        (3, b"above", 100), (3, b"due", 140), (3, b"early", 6), (3, b"new", 3), (3, b"value", 120),
    ]  # fmt: skip
    alone = rows((b"due", 2, True, 1_000))
    assert found(read_newest(iter([alone]), 0, REQUEST)) == [(0, b"due", 5)]
    assert found(read_newest(iter([alone]), 1, REQUEST)) == [(1, b"due", 4)]


def test_a_task_passes_on_what_is_newest_as_far_as_it_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as that saves anything."""
    monkeypatch.setattr(module, "_ROWS_JOINED", 4)
    repeating = [rows((b"a", 2 * n, False, -1), (b"b", 2 * n + 1, False, -1)) for n in range(5)]
    assert found(read_newest(iter(repeating), 0, REQUEST)) == [
        (0, b"a", 4), (0, b"a", 12), (0, b"a", 16), (0, b"b", 6), (0, b"b", 14), (0, b"b", 18),
    ]  # fmt: skip
    unique = [rows((b"%d" % n, n, False, -1), (b"%d" % (n + 100), n + 100, False, -1)) for n in range(2)]
    assert len(found(read_newest(iter([*unique, *repeating]), 0, REQUEST))) == 4 + 10


def test_the_newest_of_each_key() -> None:
    """By the code."""
    table = pa.table({"key": pa.array([b"a", b"b", b"a"], pa.binary()), "code": [5, 1, 3]})
    assert sorted(newest(table).to_pylist(), key=lambda row: row["key"]) == [
        {"key": b"a", "code": 5}, {"key": b"b", "code": 1},
    ]  # fmt: skip


def test_only_committed_records_count(rewrite_rig: Any, memory_archive: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An aborted record supersedes nothing."""
    store = memory_archive.store
    history = rewrite_rig.make_history(8, keys=40, transactions=0.9)
    manifest = rewrite_rig.archive(store, history)
    everything = rewrite_rig.History(rows=rewrite_rig.rows_of(store, committed=False))
    assert {row[0] for row in everything.newest()} - {row[0] for row in history.rows}, "no aborted record is in the way"
    monkeypatch.setattr(module, "open_archive", lambda url, options: store)
    whose = TopicPartition("t", 0)
    slices = [slice_entry(whose, entry, OffsetRange(entry.base, entry.end)) for entry in manifest.entries]
    request = KeyRequest(store.url, 1_000, {})
    table = pa.Table.from_batches(newest_keys(slices, request), KEY_SCHEMA)
    codes = newest(table.select(["key", "code"])).column("code").to_pylist()
    assert sorted(code >> 1 for code in codes) == [row[0] for row in history.newest()]
    flagged = {code >> 1 for code in codes if code & 1}
    assert flagged == {row[0] for row in history.newest() if row[2] is None}


def test_each_batch_that_cannot_be_read_is_noted_and_neighbours_are_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A producer may send millions of them."""
    unread = UnreadBatches()
    with caplog.at_level(logging.WARNING, "stratalog.spark"):
        for start, end in ((0, 2), (2, 3), (5, 9), (9, 10)):
            unread(start, end, "no key")
    assert [split_unread(batch.column("code").to_numpy())[1] for batch in unread.rows(0)] == [(0, 2, 5, 9)]
    assert [record.args for record in caplog.records] == [(0, "no key"), (5, "no key")]
