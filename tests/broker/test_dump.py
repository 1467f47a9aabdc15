"""Every kind of file is shown, checked, and its damage named by position and offset."""

from __future__ import annotations

import json

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stratalog.broker.dump import UnknownKind, dump
from stratalog.hot import checkpoint
from stratalog.hot.filesystem import RealFilesystem
from stratalog.hot.index import OffsetIndex, TimeIndex
from stratalog.hot.leader_epochs import EpochEntry, LeaderEpochCache
from stratalog.hot.producer_snapshot import BatchMetadata, ProducerEntry, snapshot_to_bytes
from stratalog.hot.transaction_index import AbortedTxn, aborted_to_bytes
from stratalog.metadata.quorum_state import QuorumState
from stratalog.tier import manifest_json
from stratalog.tier.keys import PartitionId
from stratalog.tier.manifest import Claimant, Manifest, Uploaded, claim, commit
from stratalog.tier.opening import open_store
from stratalog.tier.segment_object import SegmentRequest, build_segment
from stratalog.tier.source import source_bytes
from stratalog.wire.batch import Header, Record, build_batch, build_control_batch
from stratalog.wire.compression import Codec
from stratalog.wire.records import control
from stratalog.wire.records.metadata import TopicRecord, encode_record
from stratalog.wire.topic import TopicPartition, uuid_text

BASE = "00000000000000000100"
TOPIC_ID = bytes(range(16))
NOBODY = bytes(16)
PARTITION = PartitionId("orders", TOPIC_ID, 0)


def batch(offset: int, *, count: int = 3, codec: Codec = Codec.NONE, time_ms: int = 1000, epoch: int = 4) -> bytes:
    """A batch of records with keys, values and a header."""
    records = [
        Record(offset + index, time_ms + index, b"k%d" % index, b"v%d" % index, (Header("h", b"x"),))
        for index in range(count)
    ]
    return bytes(build_batch(records, codec=codec, leader_epoch=epoch))


def log_bytes() -> bytes:
    """Three batches from offset 100."""
    return batch(100) + batch(103, codec=Codec.ZSTD, time_ms=2000) + batch(106, time_ms=1500)


@pytest.fixture
def directory(tmp_path):
    """A partition's directory with one segment."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / f"{BASE}.log").write_bytes(log_bytes())
    return folder


def rows(target, **options) -> list[dict]:
    """All rows of a dump."""
    return list(dump(str(target), **options))


def of(found: list[dict], what: str) -> list[dict]:
    """The rows of one kind."""
    return [row for row in found if row["what"] == what]


def test_a_log_shows_its_batches_and_a_summary(directory) -> None:
    """Positions, offsets, codecs and epochs of all batches; totals at the end."""
    found = rows(directory / f"{BASE}.log")
    batches = of(found, "batch")
    assert [(one["base_offset"], one["last_offset"], one["codec"]) for one in batches] == [
        (100, 102, "none"),
        (103, 105, "zstd"),
        (106, 108, "none"),
    ]
    assert batches[1]["position"] == batches[0]["size_bytes"]
    assert batches[0]["leader_epoch"] == 4
    assert found[-1] == {
        "what": "summary",
        "batches": 3,
        "records": 9,
        "first_offset": 100,
        "end_offset": 109,
        "valid_bytes": len(log_bytes()),
    }


def test_records_are_shown_on_demand(directory) -> None:
    """Keys, values, headers and times, also of a compressed batch."""
    records = of(rows(directory / f"{BASE}.log", records=True), "record")
    assert len(records) == 9
    assert records[4] == {
        "what": "record",
        "offset": 104,
        "timestamp": 2001,
        "key": b"k1",
        "value": b"v1",
        "headers": [["h", b"x"]],
    }


def test_a_flipped_bit_is_named_by_position_and_offset(directory) -> None:
    """The CRC of the second batch fails; the walk ends there, because what follows cannot be found."""
    data = bytearray(log_bytes())
    second = len(batch(100))
    data[second + 80] ^= 1
    (directory / f"{BASE}.log").write_bytes(data)
    found = rows(directory / f"{BASE}.log")
    (problem,) = of(found, "problem")
    assert problem["position"] == second
    assert problem["offset"] == 103
    assert "CRC" in problem["reason"]
    assert found[-1]["batches"] == 1


def test_a_torn_tail_is_a_problem(directory) -> None:
    """Half a batch at the end, as a crash leaves it."""
    (directory / f"{BASE}.log").write_bytes(log_bytes()[:-5])
    (problem,) = of(rows(directory / f"{BASE}.log"), "problem")
    assert problem["offset"] == 106


def test_a_wrong_record_count_is_a_problem_though_the_crc_is_right(directory) -> None:
    """Records are read also when they are not shown."""
    good = build_batch([Record(100, 1, b"k", b"v")])
    lying = bytearray(good)
    lying[57:61] = (2).to_bytes(4, "big")
    from crc32c import crc32c

    lying[17:21] = crc32c(lying[21:]).to_bytes(4, "big")
    (directory / f"{BASE}.log").write_bytes(lying)
    (problem,) = of(rows(directory / f"{BASE}.log"), "problem")
    assert (problem["position"], problem["offset"]) == (0, 100)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_to_a_log_is_found(directory, data) -> None:
    """Any one byte that changes, outside the fields a leader rewrites, is a problem or fewer batches."""
    whole = bytearray(log_bytes())
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    (directory / f"{BASE}.log").write_bytes(whole)
    found = rows(directory / f"{BASE}.log")
    starts = [0, len(batch(100)), len(log_bytes()) - len(batch(106))]
    in_leaders_fields = any(0 <= at - start < 8 or 12 <= at - start < 16 for start in starts)
    assert of(found, "problem") or in_leaders_fields


def test_an_index_is_held_against_its_log(directory) -> None:
    """Each entry names a batch that ends with its offset; one that does not is named."""
    index = OffsetIndex(100)
    index.append(105, len(batch(100)))
    index.append(107, len(log_bytes()) - len(batch(106)))
    (directory / f"{BASE}.index").write_bytes(index.to_bytes() + bytes(80))
    found = rows(directory / f"{BASE}.index")
    assert next((one["offset"], one["position"]) for one in of(found, "entry")) == (105, len(batch(100)))
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
    entry.batches.append(BatchMetadata(9, 109, 4, 1000))
    (tmp_path / f"{BASE}.snapshot").write_bytes(snapshot_to_bytes([entry]))
    (producer, summary) = rows(tmp_path / f"{BASE}.snapshot")
    assert (producer["producer_id"], producer["last_sequence"], producer["last_offset"]) == (7, 9, 109)
    assert summary["producers"] == 1


def metadata_batches() -> bytes:
    """A leader change and a topic, as the metadata log holds them."""
    leader = control.encode_record(control.LeaderChangeMessage(leader_id=1, voters=[], granting_voters=[]))
    topic = encode_record(TopicRecord(name="orders", topic_id=TOPIC_ID))
    return bytes(
        build_control_batch(control.ControlType.LEADER_CHANGE, leader, offset=0, timestamp_ms=5, leader_epoch=1)
        + build_batch([Record(1, 6, None, topic)], leader_epoch=1)
    )


@pytest.mark.parametrize("name", ["00000000000000000000.log", "00000000000000000002-0000000001.checkpoint"])
def test_metadata_records_are_decoded(tmp_path, name) -> None:
    """In the metadata log and in its snapshots; uuids as Kafka prints them."""
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    (folder / name).write_bytes(metadata_batches())
    leader, topic = of(rows(folder / name, records=True), "record")
    assert (leader["type"], leader["fields"]["leader_id"]) == ("leader_change", 1)
    assert topic["type"] == "TopicRecord"
    assert topic["fields"] == {"name": "orders", "topic_id": uuid_text(TOPIC_ID)}


def test_a_metadata_record_nobody_knows_is_a_problem(tmp_path) -> None:
    """With the offset at which it stands."""
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    name = folder / "00000000000000000000.log"
    name.write_bytes(build_batch([Record(0, 6, None, b"\xff\xff\xff")]))
    assert [one["offset"] for one in of(rows(name, records=True), "problem")] == [0]


def test_small_files_are_shown(tmp_path) -> None:
    """Checkpoints, identities, quorum state and the mark of a clean stop."""
    files, folder = RealFilesystem(), str(tmp_path)
    checkpoint.write_offsets(files, folder, checkpoint.RECOVERY_POINTS, {TopicPartition("orders", 3): 42})
    checkpoint.write_remote_log(files, folder, {TopicPartition("orders", 3): checkpoint.RemoteLogState(1, 2, 3)})
    checkpoint.write_meta_properties(files, folder, checkpoint.MetaProperties("cluster", 1, TOPIC_ID))
    checkpoint.write_topic_id(files, folder, TOPIC_ID)
    checkpoint.write_clean_shutdown(files, folder, 5)
    (tmp_path / checkpoint.LEADER_EPOCHS).write_bytes(LeaderEpochCache([EpochEntry(4, 100)]).to_bytes())
    (tmp_path / "quorum-state").write_bytes(QuorumState(leader_epoch=3, leader_id=1, voters=(1,)).to_bytes())

    def only(name: str) -> dict:
        (row,) = rows(tmp_path / name)
        return row

    assert only(checkpoint.RECOVERY_POINTS) == {"what": "partition", "topic": "orders", "partition": 3, "offset": 42}
    assert only(checkpoint.REMOTE_LOG)["remote_end_offset"] == 2
    assert only(checkpoint.META_PROPERTIES)["directory_id"] == uuid_text(TOPIC_ID)
    assert only(checkpoint.PARTITION_METADATA)["topic_id"] == uuid_text(TOPIC_ID)
    assert only(checkpoint.CLEAN_SHUTDOWN)["broker_epoch"] == 5
    assert only(checkpoint.LEADER_EPOCHS) == {"what": "leader_epoch", "epoch": 4, "start_offset": 100}
    assert only("quorum-state")["leader_epoch"] == 3


@pytest.mark.parametrize(
    "name",
    [
        checkpoint.RECOVERY_POINTS,
        checkpoint.REMOTE_LOG,
        checkpoint.META_PROPERTIES,
        checkpoint.PARTITION_METADATA,
        checkpoint.CLEAN_SHUTDOWN,
        checkpoint.LEADER_EPOCHS,
        "quorum-state",
    ],
)
def test_a_small_file_of_something_else_is_a_problem(tmp_path, name) -> None:
    """Never an exception, never an empty answer."""
    (tmp_path / name).write_bytes(b"\x00 nonsense")
    assert [row["what"] for row in rows(tmp_path / name)] == ["problem"]


@pytest.fixture
def archive(tmp_path):
    """A bucket with one segment object and its manifest; the store, and the object's key."""
    store = open_store(f"file://{tmp_path}/bucket")
    built = build_segment(
        SegmentRequest(
            PARTITION, b"u" * 16, 100, 109, 4, [log_bytes()], cluster_id="cluster", writer="test", chunk_bytes=200
        )
    )
    store.put(built.entry.key, source_bytes(built.source))
    claimant = Claimant(0, 4, b"c" * 16, 1)
    manifest = claim(Manifest(PARTITION, "cluster"), claimant, now_ms=1, start_offset=100)
    manifest = commit(manifest, claimant, [Uploaded(built.entry, claimant)], now_ms=2)
    store.put(PARTITION.manifest_key, manifest_json.to_bytes(manifest))
    return store, built.entry


def test_a_segment_object_is_shown_and_read_through(archive, tmp_path) -> None:
    """Footer, parts, chunks and batches; counts agree; by path and by URL."""
    _, entry = archive
    found = rows(tmp_path / "bucket" / entry.key)
    assert found == rows(f"file://{tmp_path}/bucket/{entry.key}")
    (segment,) = of(found, "segment")
    assert (segment["topic"], segment["base"], segment["end"]) == ("orders", 100, 109)
    assert segment["uuid"] == uuid_text(b"u" * 16)
    assert {one["name"] for one in of(found, "part")} >= {"offset_index", "chunks", "aborted"}
    assert len(of(found, "batch")) == 3
    assert not of(found, "problem")
    assert found[-1]["records"] == 9


def test_quick_leaves_the_data_unread(archive, tmp_path) -> None:
    """Damage in the data is not seen, because it is not fetched."""
    store, entry = archive
    data = bytearray(store.get(entry.key)[0])
    data[70] ^= 1
    store.put(entry.key, data)
    found = rows(tmp_path / "bucket" / entry.key, quick=True)
    assert not of(found, "problem")
    assert found[-1]["data_read"] is False


def test_damage_in_an_object_is_named(archive, tmp_path) -> None:
    """A chunk by position and first offset, a part by its position, a trailer as a whole."""
    store, entry = archive
    whole = store.get(entry.key)[0]

    def damaged(position: int) -> list[dict]:
        data = bytearray(whole)
        data[position] ^= 1
        store.put(entry.key, data)
        return of(rows(tmp_path / "bucket" / entry.key), "problem")

    chunk = damaged(70)[0]
    assert (chunk["position"], chunk["offset"]) == (0, 100)
    part = damaged(entry.data_bytes)
    assert [one["position"] for one in part] == [entry.data_bytes]
    assert len(damaged(len(whole) - 1)) == 1


def test_records_of_an_object_are_shown(archive, tmp_path) -> None:
    """The same rows as those of the log they came from."""
    _, entry = archive
    found = of(rows(tmp_path / "bucket" / entry.key, records=True), "record")
    assert [one["offset"] for one in found] == list(range(100, 109))


def test_a_manifest_is_shown(archive, tmp_path) -> None:
    """Who holds it, its entries and its latest changes."""
    found = rows(tmp_path / "bucket" / PARTITION.manifest_key)
    (manifest,) = of(found, "manifest")
    assert (manifest["remote_start"], manifest["remote_end"], manifest["leader_epoch"]) == (100, 109, 4)
    assert [(one["base"], one["end"]) for one in of(found, "entry")] == [(100, 109)]
    assert [one["kind"] for one in of(found, "commit")] == ["claim", "commit"]
    assert not of(found, "problem")


def test_wrong_totals_and_holes_of_a_manifest_are_problems(archive, tmp_path) -> None:
    """Totals that are not the entries' sums; a remote end that no entry reaches."""
    store, _ = archive
    fields = json.loads(store.get(PARTITION.manifest_key)[0])
    fields["totals"]["bytes"] += 1
    store.put(PARTITION.manifest_key, json.dumps(fields).encode())
    assert "the totals say" in of(rows(tmp_path / "bucket" / PARTITION.manifest_key), "problem")[0]["reason"]
    fields["remote_end"] += 1
    store.put(PARTITION.manifest_key, json.dumps(fields).encode())
    assert "remote_end" in of(rows(tmp_path / "bucket" / PARTITION.manifest_key), "problem")[0]["reason"]


def test_other_json_of_the_bucket_is_shown(tmp_path) -> None:
    """Plain and compressed; what is no JSON is a problem."""
    (tmp_path / "format.json").write_text('{"version": 1}')
    assert rows(tmp_path / "format.json")[0]["content"] == {"version": 1}
    (tmp_path / "1-2-3.json.zst").write_bytes(zstandard.ZstdCompressor().compress(b"[1]"))
    assert rows(tmp_path / "1-2-3.json.zst")[0]["content"] == [1]
    (tmp_path / "topic.json").write_text("{")
    assert rows(tmp_path / "topic.json")[0]["what"] == "problem"


def test_a_name_that_says_nothing_is_refused(tmp_path) -> None:
    """With the names that are known; a missing file is missing."""
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(UnknownKind, match=r"meta\.properties"):
        rows(tmp_path / "notes.txt")
    with pytest.raises(FileNotFoundError):
        rows(tmp_path / f"{BASE}.log")
