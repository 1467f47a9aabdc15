"""Partitions found by name and by id."""

import time
from types import SimpleNamespace

import pytest

from stratalog.broker.replicas.partition_table import LedPartitions, PartitionTable
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import PartitionRecord, RemoveTopicRecord, TopicRecord
from stratalog.wire.topic import TopicPartition
from tests.broker.replicas.leader_rig import Bench

ID = b"i" * 16


def led(topic="t", number=0, topic_id=ID):
    return SimpleNamespace(topic_partition=TopicPartition(topic, number), topic_id=topic_id)


@pytest.fixture
def table():
    table = PartitionTable()
    for number in (0, 1):
        table.add(led(number=number))
    return table


def code_of(look_up, *args):
    with pytest.raises(KafkaError) as refused:
        look_up(*args)
    return refused.value.code


def test_a_partition_is_found_both_ways(table):
    """The same object by name and by topic id."""
    assert table.by_name("t", 1) is table.by_id(ID, 1) is table.get(TopicPartition("t", 1))
    assert table.name_of(ID) == "t"
    assert len(table) == len(list(table)) == 2


def test_partitions_not_led_here_have_kafkas_codes(table):
    """An unknown id is not the same as an unknown partition of a known one."""
    assert code_of(table.by_name, "u", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(table.by_name, "t", 2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(table.by_id, ID, 2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(table.by_id, b"x" * 16, 0) is ErrorCode.UNKNOWN_TOPIC_ID
    assert table.get(TopicPartition("u", 0)) is None


def test_partitions_that_cannot_be_opened_are_found_both_ways(table):
    """Until they are opened, or forgotten; a topic made again has another id."""
    table.add_unopened("u", b"u" * 16, 3, "why")
    table.add_unopened("u", b"v" * 16, 3, "why")
    table.add_unopened("u", b"v" * 16, 4, "why")
    assert code_of(table.by_id, b"v" * 16, 3) is code_of(table.by_name, "u", 3) is ErrorCode.KAFKA_STORAGE_ERROR
    assert code_of(table.by_id, b"u" * 16, 3) is ErrorCode.UNKNOWN_TOPIC_ID
    table.add(led("u", 3, b"v" * 16))
    assert table.by_id(b"v" * 16, 3) is table.by_name("u", 3)
    table.forget_unopened("u", b"u" * 16)
    assert table.closed == ["why"]
    table.forget_unopened("u", b"v" * 16)
    assert table.closed == []
    assert code_of(table.by_id, b"v" * 16, 4) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_look_by_id_does_not_walk_over_those_that_cannot_be_opened(table):
    """A request may name very many partitions, and a directory that failed may have had very many."""
    for number in range(3_000):
        table.add_unopened("u", b"u" * 16, number, "why")

    def seconds(look_up, topic):
        began = time.process_time()
        for number in range(3_000):
            code_of(look_up, topic, number)
        return time.process_time() - began

    assert seconds(table.by_id, b"u" * 16) < 5 * seconds(table.by_name, "u")


def test_a_partition_of_the_cluster_that_is_not_hosted_here_is_not_unknown():
    """Its client asks for metadata again; only what the image does not have is unknown, also under an id of before."""
    other = b"o" * 16
    records = [TopicRecord(name=name, topic_id=topic_id) for name, topic_id in (("t", ID), ("u", other))]
    partitions = [
        PartitionRecord(
            partition_id=number, topic_id=one, replicas=[2], isr=[2], leader=leader, leader_epoch=0, partition_epoch=0
        )
        for one, number, leader in ((ID, 0, 1), (ID, 1, 2), (other, 0, -1))
    ]
    image = EMPTY_IMAGE.apply([*records, *partitions])
    table = PartitionTable(lambda: image)
    table.add(led())
    for by_name, by_id in ((table.by_name, table.by_id), (table.readable_by_name, table.readable_by_id)):
        assert by_name("t", 0) is by_id(ID, 0)
        assert code_of(by_name, "t", 1) is code_of(by_id, ID, 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert code_of(by_name, "u", 0) is code_of(by_id, other, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert code_of(by_name, "t", 2) is code_of(by_id, ID, 2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert code_of(by_name, "v", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert code_of(by_id, b"v" * 16, 0) is ErrorCode.UNKNOWN_TOPIC_ID
    image = image.apply([RemoveTopicRecord(topic_id=other)])
    assert code_of(table.by_name, "u", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(table.by_id, other, 0) is ErrorCode.UNKNOWN_TOPIC_ID
    table.add_unopened("t", ID, 1, "t-1 is closed")
    assert code_of(table.by_name, "t", 1) is code_of(table.by_id, ID, 1) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_partition_that_cannot_be_opened_is_not_unknown(table):
    """Clients wait for it, by name and by id, until it is open or its topic deleted."""
    for number in (2, 3):
        table.add_unopened("t", ID, number, f"t-{number} is closed")
    table.add_unopened("u", b"u" * 16, 0, "u-0 is closed")
    assert code_of(table.by_name, "t", 2) is ErrorCode.KAFKA_STORAGE_ERROR
    assert code_of(table.by_id, ID, 3) is ErrorCode.KAFKA_STORAGE_ERROR
    assert code_of(table.by_id, b"u" * 16, 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert code_of(table.by_id, ID, 4) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    table.add(led(number=2))
    assert table.by_id(ID, 2) is table.by_name("t", 2)
    table.forget_unopened("u", b"u" * 16)
    assert code_of(table.by_name, "u", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(table.by_name, "t", 3) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_removed_partition_is_gone_and_its_id_with_the_last_one(table):
    """The name of an id is known as long as one partition of it is led."""
    for number, name in ((0, "t"), (1, None)):
        table.remove(table.by_name("t", number))
        assert table.name_of(ID) == name
    assert code_of(table.by_id, ID, 0) is ErrorCode.UNKNOWN_TOPIC_ID
    assert len(table) == 0


def test_a_topic_made_again_does_not_lose_its_new_partitions(table):
    """Removing under the old id leaves what is led under the new one, in either order."""
    old, new = table.by_name("t", 0), led(topic_id=b"n" * 16)
    table.add(new)
    table.remove(old)
    assert table.by_name("t", 0) is new
    assert table.by_id(b"n" * 16, 0) is new


def test_the_partitions_of_a_topic_are_found_together(table):
    """Those that are led now, whichever id the topic had when the others were."""
    other, new = led("u"), led(topic_id=b"n" * 16)
    table.add(other)
    assert [one.topic_partition.partition for one in table.of_topic("t")] == [0, 1]
    table.add(new)
    assert new in table.of_topic("t")
    for one in table.of_topic("t"):
        table.remove(one)
    assert (table.of_topic("t"), table.of_topic("u"), table.of_topic("absent")) == ([], [other], [])


def test_a_partition_added_or_removed_twice_is_counted_once(table):
    """Its id is known until it goes."""
    first, second = table.by_name("t", 0), table.by_name("t", 1)
    table.add(first)
    table.remove(first)
    table.remove(first)
    assert table.name_of(ID) == "t"
    table.remove(second)
    assert table.name_of(ID) is None


def test_the_table_may_change_while_it_is_walked(table):
    """A walk sees what was there at its beginning."""
    for one in table:
        table.remove(one)
    assert len(table) == 0


def test_every_change_makes_another_version(table):
    """A cache of a look-up sees by it that the look-up may no longer hold."""
    versions = [table.version]
    one = table.by_name("t", 0)
    for change in (table.remove, table.add):
        change(one)
        versions.append(table.version)
    assert versions == sorted(set(versions))


def test_views_are_found_by_readers_only(table):
    """Writers hear that they are read-only; the maintenance of logs never meets them."""
    view = led("t@cut", 0, b"v" * 16)
    table.add_view(view)
    assert table.readable_by_name("t@cut", 0) is table.readable_by_id(b"v" * 16, 0) is view
    assert table.readable_by_name("t", 1) is table.readable_by_id(ID, 1) is table.by_name("t", 1)
    assert code_of(table.by_name, "t@cut", 0) is ErrorCode.POLICY_VIOLATION
    assert code_of(table.by_id, b"v" * 16, 0) is ErrorCode.POLICY_VIOLATION
    assert (table.get(TopicPartition("t@cut", 0)), len(table), table.of_topic("t@cut")) == (None, 2, [])
    assert table.has_view("t@cut", 0)
    table.remove_view(view)
    assert not table.has_view("t@cut", 0)
    assert code_of(table.readable_by_name, "t@cut", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(table.readable_by_id, b"v" * 16, 0) is ErrorCode.UNKNOWN_TOPIC_ID


def test_a_partition_that_will_be_opened_is_not_unknown_and_is_next(table):
    """Its client asks again soon."""
    for number in (5, 6, 7):
        table.due.add("w", b"w" * 16, number)
    assert code_of(table.by_name, "w", 7) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code_of(table.by_id, b"w" * 16, 6) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code_of(table.by_name, "w", 8) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [table.due.take().number for _ in range(3)] == [7, 6, 5]


def test_a_partition_is_due_no_more_when_it_is_open_or_its_topic_deleted(table):
    """Whichever comes first."""
    table.due.add("w", b"w" * 16, 0)
    table.due.add("w", b"w" * 16, 1)
    table.add(led("w", 0, b"w" * 16))
    assert [table.due.holds("w", number) for number in (0, 1)] == [False, True]
    table.forget_unopened("w", b"w" * 16)
    assert not table.due


def test_topics_are_chosen_by_one_of_their_partitions(table):
    """Thirty thousand partitions are not asked each."""
    for number in range(3):
        table.add(led("w", number, b"w" * 16))
    asked = []

    def wanted(unified):
        asked.append(unified)
        return unified.topic_id != ID

    assert {one.topic_partition for one in table.of_topics(wanted)} == {
        TopicPartition("w", number) for number in range(3)
    }
    assert len(asked) == 2


def test_the_partitions_that_are_led_are_those_of_the_moment():
    """Each look finds the roles of then."""
    table = PartitionTable()
    rows = [led(number=number) for number in (0, 1)]
    for number, row in enumerate(rows):
        row.partition = SimpleNamespace(leader=object() if number else None)
        table.add(row)
    found = LedPartitions(table)
    assert list(found) == rows[1:]
    rows[0].partition.leader, rows[1].partition.leader = object(), None
    assert list(found) == rows[:1]


@pytest.mark.parametrize("state", ["offline", "held back"])
def test_a_leader_that_answers_no_follower_calls_none_of_them_late(tmp_path, state):
    """They cannot fetch. With itself alone in sync no replica could lead, once the controller hears of the failed disk."""
    it, table = Bench(str(tmp_path / "t-0"), in_sync=(1, 2), replicas=(1, 2)), PartitionTable()
    unified = led(topic_id=b"i" * 16)
    unified.partition = it.partition
    table.add(unified)
    it.leader.follower_fetched(2, 0, log_start_offset=0, broker_epoch=7)
    it.append("a", build_batch([Record(0, 1_700_000_000_000, b"k", b"v")]))
    it.disk.write()
    it.disk.flush()
    if state == "offline":
        it.disk.offline = OSError(5, "Input/output error")
    else:
        it.partition.held_back = "it is compared with its archive"
    it.now += 60
    list(table.checking_lag(30_000))
    assert it.asking.asked == []
    it.disk.offline = it.partition.held_back = None
    list(table.checking_lag(30_000))
    assert it.asking.asked == [(1,)]
