"""A disk without room while offsets are committed and transactions end: refused, never half done, and over when room comes."""

import time
from functools import partial

import pytest

from stratalog.broker.coordinators import shard_driver
from stratalog.client.records import fetch, visible_records
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import TopicPartition

SETTINGS = {
    "offsets_topic_num_partitions": 1,
    "transaction_state_log_num_partitions": 1,
    "group_initial_rebalance_delay_ms": 0,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 60_000,
}
NOT_NOW = {"COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"}
"""Clients come again after these."""


@pytest.fixture
def node(start_node, watched_files, monkeypatch):
    monkeypatch.setattr(shard_driver, "_RELOAD_AFTER_SECONDS", 0.02)
    node = start_node(files=watched_files, **SETTINGS)
    node.create("t", 2)
    return node


@pytest.fixture
def wire(node, wire_to):
    return wire_to(node.port).ready()


@pytest.fixture
def room(node, watched_files):
    """Takes all room but so much, or gives it back and waits until the broker has noticed."""

    def leave(free_bytes):
        watched_files.free_bytes = free_bytes
        if free_bytes is None:
            node.wait_until(lambda: not node.partition("t").partition.directory._refused)
            hosts = (node.node.groups.host, node.node.transactions.host)
            node.wait_until(lambda: all(driver.active for host in hosts for driver in host))

    return leave


def until(call, expected):
    """Repeat what may be repeated until it is done; every code on the way."""
    codes, end = set(), time.monotonic() + 30
    while (code := call()) != expected:
        codes.add(code)
        assert time.monotonic() < end, codes
        time.sleep(0.01)
    return codes


def committed(node):
    client, position, values = node.client(), 0, []
    while True:
        (found,) = fetch(client, {TopicPartition("t", 0): position}, max_wait_ms=0)
        if not found.data:
            return values
        for next_offset, records in visible_records(found, position):
            values += [one.value for one in records]
            position = next_offset


@pytest.mark.parametrize("free_bytes", [0, 100, 700])
def test_offsets_are_refused_and_those_before_stay(node, wire, room, free_bytes):
    """Every acknowledged commit is there, while the disk is full and after; members are still members."""
    (member,) = wire.stable("g", None)
    epoch = wire.consume("new", "m", 0, topics=["t"]).member_epoch
    acknowledged = 0
    room(free_bytes)
    codes = set()
    for offset in range(1, 20):
        code = wire.commit("g", offset, member=member.member_id, epoch=member.generation)
        codes.add(code)
        if code == "NONE":
            acknowledged = offset
        elif code == "COORDINATOR_NOT_AVAILABLE":
            while (found := wire.offsets("g")) == "COORDINATOR_LOAD_IN_PROGRESS":
                time.sleep(0.005)
            assert found == ([("t", 0, acknowledged, "", "NONE")] if acknowledged else [])
    assert codes <= {"NONE", *NOT_NOW}
    assert "COORDINATOR_NOT_AVAILABLE" in codes
    assert wire.beat(member) == "NONE"
    assert wire.consume("new", "m", epoch).member_epoch == epoch
    room(None)
    again = partial(wire.commit, "g", 100, member=member.member_id, epoch=member.generation)
    assert until(again, "NONE") <= NOT_NOW
    assert wire.offsets("g") == [("t", 0, 100, "", "NONE")]
    assert wire.beat(member) == "NONE"


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_transaction_that_cannot_be_decided_stays_open(node, wire, room, commit):
    """EndTxn is refused with a code that is repeated; when room comes the same request ends it, once."""
    producer = wire.producer()
    assert wire.produce(producer, version=12) == "NONE"
    assert wire.commit_in_transaction(producer, "g", 9, version=5) == "NONE"
    room(0)

    def end():
        return ErrorCode(wire.end(producer, commit=commit, version=5).error_code).name

    assert end() == "COORDINATOR_NOT_AVAILABLE"
    while wire.state() != "Ongoing":
        time.sleep(0.005)
    assert wire.ends("t", 2, committed=True) == [0, 0]
    room(None)
    assert until(end, "NONE") <= NOT_NOW
    assert wire.settled() == ("CompleteCommit" if commit else "CompleteAbort")
    assert committed(node) == ([b"v"] if commit else [])
    assert wire.offsets("g", stable=True) == ([("t", 0, 9, "in transaction", "NONE")] if commit else [])


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_decided_transaction_waits_for_room_for_its_markers(node, wire, room, commit):
    """The decision was acknowledged and holds: its marker is tried until it stands."""
    producer = wire.producer()
    assert wire.produce(producer, version=12) == "NONE"
    held = node.partition("t").partition
    held.held_back = "for the test"
    assert wire.end(producer, commit=commit, version=5).error_code == 0
    room(0)
    held.held_back = None
    time.sleep(0.3)  # some tries
    assert wire.state() == ("PrepareCommit" if commit else "PrepareAbort")
    assert wire.ends("t", 2, committed=True) == [0, 0]
    room(None)
    assert wire.settled() == ("CompleteCommit" if commit else "CompleteAbort")
    assert committed(node) == ([b"v"] if commit else [])
    assert wire.ends("t", 2, committed=True) == wire.ends("t", 2, committed=False) == [2, 0]


def test_a_transaction_begins_again_after_the_room_came(node, wire, room):
    """Produce and offsets inside of a transaction are refused too; nothing of what was refused is ever committed."""
    producer = wire.producer()
    assert wire.produce(producer, version=12, value=b"before") == "NONE"
    room(0)
    assert wire.produce(producer, version=12, sequence=1, value=b"refused") == "KAFKA_STORAGE_ERROR"
    assert wire.commit_in_transaction(producer, "g", 5, version=5) in NOT_NOW
    assert wire.produce(producer, 1, version=12) in {"NOT_ENOUGH_REPLICAS", "KAFKA_STORAGE_ERROR"}
    room(None)
    assert until(lambda: wire.produce(producer, version=12, sequence=1, value=b"after"), "NONE") <= {
        "KAFKA_STORAGE_ERROR"
    }
    assert wire.end(producer, version=5).error_code == 0
    assert wire.settled() == "CompleteCommit"
    assert committed(node) == [b"before", b"after"]
    assert wire.offsets("g", stable=True) == []
