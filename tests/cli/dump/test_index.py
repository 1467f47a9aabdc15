"""Indexes and producer snapshots, held against the log beside them."""

from __future__ import annotations

import pytest

from stratalog.cli.dump.dump import dump
from stratalog.hot.segments.index import OffsetIndex, TimeIndex
from stratalog.hot.segments.transaction_index import AbortedTxn, aborted_to_bytes
from stratalog.hot.state.producer_snapshot import ProducerEntry, snapshot_to_bytes

BASE = "00000000000000000100"


@pytest.fixture
def directory(tmp_path, three_batches):
    """A partition's directory with one segment."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / f"{BASE}.log").write_bytes(b"".join(three_batches))
    return folder


def rows(target, **options) -> list[dict]:
    """All rows of a dump."""
    return list(dump(str(target), **options))


def of(found: list[dict], what: str) -> list[dict]:
    """The rows of one kind."""
    return [row for row in found if row["what"] == what]


def test_an_index_is_held_against_its_log(directory, three_batches) -> None:
    """Each entry names a batch that ends with its offset; one that does not is named."""
    index = OffsetIndex(100)
    index.append(105, len(three_batches[0]))
    index.append(107, len(b"".join(three_batches)) - len(three_batches[2]))
    (directory / f"{BASE}.index").write_bytes(index.to_bytes() + bytes(80))
    found = rows(directory / f"{BASE}.index")
    assert next((one["offset"], one["position"]) for one in of(found, "entry")) == (105, len(three_batches[0]))
    (problem,) = of(found, "problem")
    assert problem["offset"] == 107
    assert "ends with offset 108" in problem["reason"]
    assert found[-1] == {"what": "summary", "entries": 2, "checked_against": f"{BASE}.log"}


def test_an_index_entry_between_batches_is_a_problem(directory) -> None:
    """A position at which no batch begins, and one behind the file."""
    index = OffsetIndex(100)
    index.append(105, 7)
    index.append(108, 1 << 20)
    (directory / f"{BASE}.index").write_bytes(index.to_bytes())
    assert [one["position"] for one in of(rows(directory / f"{BASE}.index"), "problem")] == [7, 1 << 20]


def test_a_time_index_is_held_against_its_log(directory) -> None:
    """Times are the largest so far: 2002 at 105, still at 108."""
    index = TimeIndex(100)
    index.maybe_append(1002, 102)
    index.maybe_append(2002, 105)
    index.maybe_append(2003, 108)
    (directory / f"{BASE}.timeindex").write_bytes(index.to_bytes())
    found = rows(directory / f"{BASE}.timeindex")
    assert len(of(found, "entry")) == 3
    (problem,) = of(found, "problem")
    assert problem["offset"] == 108
    assert "the largest time up to there is 2002" in problem["reason"]


def test_an_index_without_its_log_is_shown_unchecked(tmp_path) -> None:
    """A copied file is still readable."""
    index = OffsetIndex(100)
    index.append(105, 7)
    (tmp_path / f"{BASE}.index").write_bytes(index.to_bytes())
    assert rows(tmp_path / f"{BASE}.index")[-1]["checked_against"] is None


@pytest.mark.parametrize("name", [f"{BASE}.index", f"{BASE}.timeindex", f"{BASE}.txnindex", f"{BASE}.snapshot"])
def test_a_file_that_is_not_whole_is_a_problem(tmp_path, name) -> None:
    """Sizes that no such file has."""
    (tmp_path / name).write_bytes(b"abc")
    assert [row["what"] for row in rows(tmp_path / name)] == ["problem"]


def test_transactions_and_producers_are_shown(tmp_path) -> None:
    """A transaction index and a producer snapshot."""
    (tmp_path / f"{BASE}.txnindex").write_bytes(aborted_to_bytes([AbortedTxn(7, 100, 120, 90)]))
    assert rows(tmp_path / f"{BASE}.txnindex")[0] == {
        "what": "aborted",
        "producer_id": 7,
        "first_offset": 100,
        "last_offset": 120,
        "last_stable_offset": 90,
    }
    entry = ProducerEntry(7, 1, 2, 1000, -1)
    entry.remember(9, 109, 4, 1000)
    (tmp_path / f"{BASE}.snapshot").write_bytes(snapshot_to_bytes([entry]))
    (producer, summary) = rows(tmp_path / f"{BASE}.snapshot")
    assert (producer["producer_id"], producer["last_sequence"], producer["last_offset"]) == (7, 9, 109)
    assert summary["producers"] == 1
