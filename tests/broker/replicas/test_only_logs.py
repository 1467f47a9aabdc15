"""The only log of a partition: it is begun anew where its disk was replaced, and not while it may be away."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pytest
from msgspec import structs

from stratalog.broker.replicas.led import Led
from stratalog.broker.replicas.log_opening import LogOpening
from stratalog.metadata.image.directory_ids import UNASSIGNED
from stratalog.metadata.image.topics_image import NO_LEADER, PartitionImage
from stratalog.wire.topic import TopicPartition
from tests.broker.replicas.following import follow_and_open

NAME, ID = TopicPartition("t", 0), b"t" * 16
AWAY = b"?" * 16


class Bench:
    """The opening of logs at a start of a broker; the partition of the tests is none of its own."""

    def __init__(self, node):
        self.node, self.directories = node, node.node.directories
        self.opening = LogOpening(self.directories, node.node.hosted.table, node.node.clock, segments_open_max=9)

    def settled(self, **changed):
        self.directories.settled = self.directories.settled._replace(**changed)

    def open(self, placed_in=UNASSIGNED, *, topic_id=ID, others_have_it=False):
        config = self.node.node.hosted.settings(self.node.node.image, "t")
        about = {"leader_epoch_max": 1, "placed_in": placed_in, "others_have_it": others_have_it}
        return self.node.run(lambda: self.opening.open(NAME, topic_id, config, **about))

    def started(self):
        self.node.run(lambda: self.opening.started(lambda _name: True, lambda: [(NAME, ID)]))


@pytest.fixture
def again(start_node):
    """A broker at its second start: none of its directories is new."""
    node = start_node()
    node.restart()
    return Bench(node)


@pytest.mark.parametrize("is_started", [False, True])
@pytest.mark.parametrize("only", [True, False])
def test_an_only_log_is_not_begun_anew_where_it_was_to_move_while_a_disk_is_dead(
    start_node, tmp_path, only, is_started
):
    """The image names the directory that it was about to move to. It may be opened after the start, when it is elected."""
    node = start_node(log_dirs=f"{tmp_path}/one,{tmp_path}/two")
    node.stop()
    Path(tmp_path, "two").rename(tmp_path / "kept")
    Path(tmp_path, "two").write_bytes(b"")
    node.start()
    bench = Bench(node)
    if is_started:
        bench.started()
    opened = bench.open(bench.directories.all[0].directory_id, others_have_it=not only)
    assert (opened is None) is (only or is_started), "placing says which replicas may be anywhere"


def test_an_only_log_whose_directory_is_none_of_the_brokers_is_begun_anew_in_the_place_of_a_replaced_one(again, caplog):
    """A directory that was left out of log.dirs is merely away; one that is new shows that the other is lost."""
    assert again.open(AWAY) is None
    assert "make the directory t-0 in one of log.dirs, empty" in caplog.text
    again.started()
    again.settled(is_replaced=True)
    opened = again.open(AWAY)
    assert opened.led is Led.LOST, "its archive has the say over where it goes on, also after the start"
    assert "t-0: its log is gone from the directory" in caplog.text


def test_an_only_log_with_an_unfinished_copy_here_is_away(again, caplog):
    """The image may name any directory. A topic that is made again has no such log."""
    mine = again.directories.all[0].directory_id
    again.settled(only_copies={NAME: "/two/t-0.7-future"})
    again.started()
    assert again.open(mine) is None
    assert "/two/t-0.7-future is an unfinished copy" in caplog.text
    assert again.open(mine, topic_id=b"u" * 16) is not None


@pytest.mark.parametrize("topic_id", [ID, b"u" * 16])
def test_an_only_log_that_was_lost_on_its_way_to_another_directory_is_named(again, caplog, topic_id):
    """Its place in the image is a directory that it never came to; a new topic is no such log."""
    again.settled(is_replaced=True)
    again.started()
    opened = again.open(again.directories.all[0].directory_id, topic_id=topic_id)
    assert (
        (opened.led is Led.LOST) is ("its log is gone from a directory whose disk" in caplog.text) is (topic_id == ID)
    )


def test_an_only_replica_in_a_directory_that_is_gone_is_opened_and_its_place_reported(broker):
    """The controller elects it when it hears of another place, and not before. It is led as lost once."""
    told, led, hosted = {}, [], broker.node.hosted

    class Placements:
        def placed(self, topic_id, partition, directory):
            told[topic_id, partition] = directory

        def gone(self, topic_id, partition):
            told.pop((topic_id, partition), None)

    hosted.placing._placements = Placements()
    hosted._services = structs.replace(hosted._services, on_led=lambda _unified, why: led.append(why))
    broker.create("t")
    topic, me = broker.node.image.topics.by_name["t"], broker.node.node_id
    (mine,) = [one.directory_id for one in broker.node.directories.online]

    def follow(leader, directory, epoch, replicas=None):
        replicas = (me,) if replicas is None else replicas
        state = PartitionImage(replicas, (me,), leader, leader_epoch=epoch, directories=(directory,) * len(replicas))
        other = replace(topic, name="u", topic_id=ID, partitions=MappingProxyType({0: state}))
        broker.run(partial(follow_and_open, hosted, broker.node.image, other))

    for directory, replicas in ((mine, None), (UNASSIGNED, None), (AWAY, (me + 1,))):
        follow(NO_LEADER, directory, 1, replicas)
        assert hosted.table.get(TopicPartition("u", 0)) is None
    led.clear()
    follow(NO_LEADER, AWAY, 1)
    assert (told, led) == ({(ID, 0): mine}, [])
    for epoch in (2, 3):
        follow(me, mine, epoch)
        follow(NO_LEADER, mine, epoch)
    assert (told, led) == ({}, [Led.LOST, Led.RENEWED])


def test_a_log_that_lies_here_is_opened_while_others_are_away(again):
    """The metadata of a node of its own may name the directory in which it lay before it was moved."""
    again.node.create("t")
    again.node.restart()
    bench = Bench(again.node)
    bench.settled(away=frozenset({AWAY}))
    opened = again.node.run(lambda: bench.opening._holding(NAME, AWAY))
    assert opened is bench.directories.all[0]


@pytest.mark.parametrize("is_dead_first", [False, True])
def test_no_log_of_a_node_of_its_own_is_begun_anew_while_a_directory_is_missing_from_its_settings(
    start_node, tmp_path, caplog, is_dead_first
):
    """Its metadata place no log: its registration has the directories of the last start, until no log is missed."""
    both, one = f"{tmp_path}/one,{tmp_path}/two", f"{tmp_path}/one"
    node = start_node(log_dirs=both)
    node.create("t", 4)
    for partition in range(4):
        node.produce("t", b"kept", partition=partition)
    away = [number for number in range(4) if node.partition("t", number).partition.directory.path.endswith("two")]
    assert len(away) == 2
    node.stop()
    if is_dead_first:
        Path(tmp_path, "two").rename(tmp_path / "kept")
        Path(tmp_path, "two").write_bytes(b"")
        node.start()
        node.stop()
        Path(tmp_path, "two").unlink()
        Path(tmp_path, "kept").rename(tmp_path / "two")
    for number in range(2):
        left = start_node(log_dirs=one)
        table = left.node.partitions
        assert [each for each in range(4) if table.get(TopicPartition("t", each)) is None] == away
        assert "name that again" in caplog.text
        left.create(f"u{number}")
        assert left.produce(f"u{number}", b"of a new topic") == [0]
        left.stop()
    node.start()
    assert [node.values("t", number) for number in range(4)] == [[b"kept"]] * 4


def test_a_directory_that_was_emptied_before_it_left_the_settings_is_not_missed(start_node, tmp_path):
    """Neither at the first start without it nor later."""
    node = start_node(log_dirs=f"{tmp_path}/one,{tmp_path}/two")
    (known,) = {one.directory_id for one in node.node.directories.all if one.path.endswith("two")}
    node.stop()
    left = start_node(log_dirs=f"{tmp_path}/one")
    assert known not in left.node.image.brokers.brokers[left.node.node_id].directories
    left.create("t", 2)
    assert left.produce("t", b"v", partition=1) == [0]
