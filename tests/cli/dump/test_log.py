"""Log segments and metadata snapshots: every batch with its place, its records, and what is wrong."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stratalog.cli.dump.dump import dump
from stratalog.wire.batch import Record, build_batch, build_control_batch
from stratalog.wire.records import control
from stratalog.wire.records.metadata import TopicRecord, encode_record
from stratalog.wire.topic import uuid_text

BASE = "00000000000000000100"
TOPIC_ID = bytes(range(16))


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


def test_a_log_shows_its_batches_and_a_summary(directory, three_batches) -> None:
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
        "valid_bytes": len(b"".join(three_batches)),
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


def test_a_flipped_bit_is_named_by_position_and_offset(directory, three_batches) -> None:
    """The CRC of the second batch fails; the walk ends there, because what follows cannot be found."""
    data = bytearray(b"".join(three_batches))
    second = len(three_batches[0])
    data[second + 80] ^= 1
    (directory / f"{BASE}.log").write_bytes(data)
    found = rows(directory / f"{BASE}.log")
    (problem,) = of(found, "problem")
    assert problem["position"] == second
    assert problem["offset"] == 103
    assert "CRC" in problem["reason"]
    assert found[-1]["batches"] == 1


def test_a_torn_tail_is_a_problem(directory, three_batches) -> None:
    """Half a batch at the end, as a crash leaves it."""
    (directory / f"{BASE}.log").write_bytes(b"".join(three_batches)[:-5])
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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_to_a_log_is_found(directory, data, three_batches) -> None:
    """Any one byte that changes, outside the fields a leader rewrites, is a problem or fewer batches."""
    whole = bytearray(b"".join(three_batches))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    (directory / f"{BASE}.log").write_bytes(whole)
    found = rows(directory / f"{BASE}.log")
    starts = [0, len(three_batches[0]), len(b"".join(three_batches)) - len(three_batches[2])]
    in_leaders_fields = any(0 <= at - start < 8 or 12 <= at - start < 16 for start in starts)
    assert of(found, "problem") or in_leaders_fields


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


def test_an_unknown_metadata_record_is_a_problem(tmp_path) -> None:
    """With the offset at which it stands."""
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    name = folder / "00000000000000000000.log"
    name.write_bytes(build_batch([Record(0, 6, None, b"\xff\xff\xff")]))
    assert [one["offset"] for one in of(rows(name, records=True), "problem")] == [0]
