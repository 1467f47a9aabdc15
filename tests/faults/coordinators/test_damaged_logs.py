"""Coordinator logs that are damaged: what is broken is named and left alone, everything else is served."""

import asyncio
import logging
import random
import shutil
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from stratalog.broker.coordinators.log_loader import load_log
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.coordination import Now
from stratalog.metadata.groups.group import GroupSettings
from stratalog.metadata.groups.shard.shard import GroupShard
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.metadata.transactions.events import TransactionSettings
from stratalog.metadata.transactions.shard import TransactionShard
from stratalog.wire.batch import Record, build_batch, iter_headers, iter_records
from stratalog.wire.errors import Corrupt, ErrorCode
from stratalog.wire.partitioner import coordinator_partition
from stratalog.wire.records.group import GroupMetadataKey, encode_key
from stratalog.wire.topic import TopicPartition

SETTINGS = {
    "offsets_topic_num_partitions": 2,
    "transaction_state_log_num_partitions": 2,
    "group_initial_rebalance_delay_ms": 0,
    "group_consumer_assignment_interval_ms": 0,
}
GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
SEGMENT = "00000000000000000000.log"
CLEAN = ".kafka_cleanshutdown"


def named(partition, prefix):
    """A key whose coordinator is this partition of two."""
    return next(name for n in range(99) if coordinator_partition(name := f"{prefix}{n}", 2) == partition)


KEYS = [named(number, "k") for number in (0, 1)]
"""Names of groups and of transactional ids, one in each partition."""


def live(wire):
    """Something of every kind in both partitions of both topics."""
    for key in KEYS:
        wire.commit(key, 5, text="x" * 30)
        new = named(KEYS.index(key), "new-")
        answer = wire.consume(new, "m", 0, topics=["t"])
        wire.commit(new, 6, member="m", epoch=answer.member_epoch)
        wire.consume(new, "by pattern", 0, topics=[], subscribed_topic_regex="t.*", instance_id="static")
        wire.consume(new, "m", answer.member_epoch, owned=[])
        producer = wire.producer(key)
        wire.produce(producer, version=12, transactional_id=key)
        wire.end(producer, version=5, transactional_id=key)
        wire.settled(key)
        wire.stable(named(KEYS.index(key), "classic-"), None)


@pytest.fixture(scope="module")
def stopped(start_shared_node, wires_of_module):
    """The folder of a broker that has lived and was stopped in order."""
    node = start_shared_node(**SETTINGS)
    node.create("t", 4)
    wire = wires_of_module(node.port).ready()
    live(wire)
    told = wire.everything()
    node.stop()
    return Path(node.directory), told


@pytest.fixture
def place(stopped, tmp_path):
    """A copy of it to damage."""
    shutil.copytree(stopped[0], tmp_path, dirs_exist_ok=True)
    return tmp_path


def segment(place, topic, partition=0):
    return place / "data" / f"{topic}-{partition}" / SEGMENT


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 0x41
    path.write_bytes(data)
    return bytes(data)


def state_of(shard):
    """Contents of a shard, to be compared."""
    if isinstance(shard, TransactionShard):
        return {name: one.record() for name, one in shard.transactions.items()}
    return (
        sorted((name, one.type, one.state) for name, one in shard.groups.items()),
        {name: sorted(shard.offsets.of(name)) for name in shard.groups},
    )


def load(directory, topic, *, clean):
    """Open the log and load a shard from it, as a broker does; the shard and what recovery has found."""
    name = TopicPartition(topic, 0)
    config = LogConfig(cleanup_policy=frozenset({"compact"}))
    log = Log.open(
        str(directory), name, bytes(16), config, files=RealFilesystem(), now_ms=1_700_000_000_000, clean=clean
    )
    shard = GroupShard(0, GroupSettings(), EMPTY_IMAGE)
    if topic == TRANSACTIONS:
        shard = TransactionShard(TransactionSettings())
    try:
        asyncio.run(load_log(log, shard, time.monotonic))
    finally:
        log.close()
    return shard, log.recovery


@pytest.mark.parametrize("topic", [GROUPS, TRANSACTIONS])
def test_a_flipped_byte_anywhere(place, topic):
    """The load ends with the batch's offset and the folder, and changes nothing; or nothing of the state has changed."""
    path = segment(place, topic)
    folder, sound = path.parent, path.read_bytes()
    expected = state_of(load(folder, topic, clean=True)[0])
    refused = 0
    for position in range(0, len(sound), max(len(sound) // 100, 1)):
        path.write_bytes(sound)
        damaged = flip(path, position)
        try:
            shard, report = load(folder, topic, clean=True)
        except Corrupt as error:
            refused += 1
            assert f"{topic}-0 in {folder}" in str(error), position
            assert "offset" in str(error) or "are no batch" in str(error), str(error)
            assert path.read_bytes() == damaged
            continue
        assert state_of(shard) == expected or report.reason or report.truncated_bytes, position
    assert refused > 60


def damage(record, dice):
    """Another record in its place: a byte is another one, the end is missing, or all of the value is."""
    key, value = record
    target = bytearray(value if value and dice.random() < 0.7 else key)
    is_value = bytes(target) == value
    if dice.random() < 0.2:
        return key, None
    if dice.random() < 0.5:
        target[dice.randrange(len(target))] = dice.randrange(256)
    else:
        del target[dice.randrange(len(target)) :]
    return (key, bytes(target)) if is_value else (bytes(target), value)


@pytest.mark.parametrize("topic", [GROUPS, TRANSACTIONS])
def test_a_load_of_damaged_records_ends(place, topic):
    """Records that contradict each other or themselves raise `Corrupt`, or give a state that can be worked with."""
    data = segment(place, topic).read_bytes()
    records = [
        (record.key, record.value)
        for at, header in iter_headers(data)
        if not header.is_control
        for record in iter_records(data, at)
    ]
    refused = 0
    for seed in range(300):
        dice = random.Random(seed)
        shard = GroupShard(0, GroupSettings(), EMPTY_IMAGE)
        if topic == TRANSACTIONS:
            shard = TransactionShard(TransactionSettings())
        damaged = list(records)
        for at in dice.sample(range(len(records)), 2):
            damaged[at] = damage(records[at], dice)
        try:
            for offset, (key, value) in enumerate(damaged):
                shard.replay(key, value, offset=offset, producer=None)
        except Corrupt:
            refused += 1
            continue
        shard.loaded(Now(1_000, 1_700_000_000_000))
        shard.due(Now(10_000_000, 1_700_009_999_000))
    assert 50 < refused < 300


def answers(wire, partition):
    """Answers to clients of a partition's groups and of its transactional ids."""
    key = KEYS[partition]
    return {
        "commit": wire.commit(key, 6),
        "fetch": wire.offsets(key),
        "join": ErrorCode(wire.call(wire.join_request(key, "m"), 9).error_code).name,
        "describe": ErrorCode(wire.described(key).error_code).name,
        "heartbeat": ErrorCode(wire.consume(named(partition, "new-"), "m", 0, topics=["t"]).error_code).name,
    }


@pytest.fixture
def restarted(start_node, wire_to, caplog):
    """Starts a broker on the damaged folder and waits until its coordinators are loaded as far as they can be."""

    def start():
        with caplog.at_level(logging.ERROR):
            node = start_node(**SETTINGS)
            return node, wire_to(node.port).ready()

    return start


def check_left_alone(node, wire, caplog, topic, path, damaged, offset):
    """Partition 0 of the topic is not available and says why; the other is, and the file is what it was."""
    folder = str(path.parent)
    (reason,) = node.run(node.node.not_ready)
    host, port = node.node.http_address
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{host}:{port}/readyz")
    body = refused.value.read().decode()
    refused.value.close()
    told = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    for text in (reason, body, *told):
        assert f"{topic}-0" in text
        assert folder in text
        assert f"offset {offset}" in text
    assert len(told) == 1
    if topic == GROUPS:
        assert set(answers(wire, 0).values()) == {"COORDINATOR_NOT_AVAILABLE"}
        assert answers(wire, 1)["commit"] == "NONE"
        assert sorted(one[0] for one in wire.groups()) == sorted(named(1, one) for one in ("k", "new-", "classic-"))
    else:
        assert ErrorCode(wire.init(KEYS[0]).error_code).name == "COORDINATOR_NOT_AVAILABLE"
        assert wire.transaction(KEYS[0]).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert wire.init(KEYS[1]).error_code == 0
    node.stop()
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("topic", [GROUPS, TRANSACTIONS])
def test_a_flipped_byte_in_the_middle(place, restarted, caplog, topic):
    """After a clean stop nothing is cut: the batch's CRC is found wrong when the coordinator is loaded."""
    path = segment(place, topic)
    batches = list(iter_headers(path.read_bytes()))
    position, header = batches[len(batches) // 2]
    damaged = flip(path, position + 70)
    node, wire = restarted()
    check_left_alone(node, wire, caplog, topic, path, damaged, header.base_offset)


JUNK = {
    "a value that ends early": (encode_key(GroupMetadataKey(group="g")), b"\x00\x03\x00"),
    "an undefined version": (encode_key(GroupMetadataKey(group="g")), b"\x00\x63" + bytes(40)),
    "an offset that is none": (b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00", b"\x00\x03abc"),
    "a key that ends early": (b"\x00\x01\x00\x09g", b"\x00\x03" + bytes(30)),
    "no key": (None, b"v"),
}


@pytest.mark.parametrize("what", JUNK)
def test_a_record_that_cannot_be_read_with_a_good_crc(start_node, wire_to, caplog, what):
    """It says which one it is; its meaning is unknown, so nothing behind it is believed."""
    node = start_node(**SETTINGS)
    node.create("t", 4)
    wire = wire_to(node.port).ready()
    live(wire)
    key, value = JUNK[what]
    batch = build_batch([Record(0, node.node.clock.wall_ms(), key, value)])
    done = []
    node.run(lambda: node.partition(GROUPS, 0).partition.leader.append_as_leader(batch, done.append))
    node.wait_until(lambda: done)
    node.stop()
    path = segment(Path(node.directory), GROUPS)
    damaged = path.read_bytes()
    with caplog.at_level(logging.ERROR):
        node.start()
        wire = wire_to(node.port).ready()
    check_left_alone(node, wire, caplog, GROUPS, path, damaged, done[0].base_offset)


@pytest.mark.parametrize("topic", [GROUPS, TRANSACTIONS])
def test_a_torn_tail_after_a_kill(place, restarted, caplog, topic):
    """An unfinished write of a dead broker is cut off as everywhere; it was never acknowledged."""
    path = segment(place, topic)
    sound = path.read_bytes()
    (place / "data" / CLEAN).unlink()
    with path.open("ab") as file:
        file.write(sound[-100:-30])
    node, wire = restarted()
    assert node.run(node.node.not_ready) == []
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []
    for partition in (0, 1):
        assert wire.offsets(KEYS[partition]) == [("t", 0, 5, "x" * 30, "NONE")]
        assert wire.state(KEYS[partition]) == "CompleteCommit"
    node.stop()
    assert path.read_bytes()[: len(sound)] == sound


@pytest.mark.parametrize("topic", [GROUPS, TRANSACTIONS])
def test_a_log_that_lost_acknowledged_records_is_quarantined_first(place, restarted, caplog, topic):
    """After a kill recovery finds the flipped byte: it keeps the damaged bytes aside and says so. Records before them
    is loaded, the coordinator serves, and later records never take the offsets of lost ones.
    """
    path = segment(place, topic)
    sound = path.read_bytes()
    batches = list(iter_headers(sound))
    position, header = batches[len(batches) // 2]
    (place / "data" / CLEAN).unlink()
    flip(path, position + 70)
    node, wire = restarted()
    assert node.run(node.node.not_ready) == []
    told = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    assert told
    assert all(f"{topic}-0" in one and f"offset {header.base_offset}" in one for one in told), told
    (aside,) = (place / "data").glob(f"{topic}-0.*-stray/*.log.from-*")
    assert len(aside.read_bytes()) == len(sound) - position
    if topic == GROUPS:
        assert answers(wire, 0)["commit"] == "NONE"
    else:
        assert wire.producer(KEYS[0]).producer_id >= 0
    last = node.run(lambda: node.partition(topic, 0).log.log_end_offset)
    assert last > batches[-1][1].last_offset
    node.restart()
    assert node.run(node.node.not_ready) == []


@pytest.mark.parametrize("clean", [True, False], ids=["after a stop", "after a kill"])
@pytest.mark.parametrize("topic", [GROUPS, TRANSACTIONS])
def test_a_log_that_is_cut_in_the_middle(place, restarted, caplog, topic, clean):
    """Acknowledged records are gone: it is said with the offset where they should be, what was before them is served,
    and new records stand above all that were ever told.
    """
    path = segment(place, topic)
    sound = path.read_bytes()
    batches = list(iter_headers(sound))
    position, header = batches[len(batches) // 2]
    if not clean:
        (place / "data" / CLEAN).unlink()
    path.write_bytes(sound[: position + 20])
    node, wire = restarted()
    assert node.run(node.node.not_ready) == []
    told = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    assert told
    assert all(f"{topic}-0" in one and f"offset {header.base_offset}" in one for one in told), told
    if topic == GROUPS:
        assert answers(wire, 0)["commit"] == "NONE"
    else:
        assert wire.producer(KEYS[0]).producer_id >= 0
    assert node.run(lambda: node.partition(topic, 0).log.log_end_offset) > batches[-1][1].last_offset + 1
    wire.offsets(KEYS[1])
    node.restart()
    assert node.run(node.node.not_ready) == []
