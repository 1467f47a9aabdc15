"""Moves of a broker: asked for, in line, replaced, cancelled, begun again after a stop."""

from pathlib import Path

from stratalog.client.admin import delete_topics
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import TopicPartition


def test_a_third_directory_replaces_the_second(disks):
    """One move of a replica at a time: the copy of the first goes."""
    disks.node.produce("t", b"v")
    disks.stand_still()
    disks.ask(disks.other)
    disks.ask(disks.third)
    disks.set_rate(1 << 40)
    disks.moved(disks.third)
    assert disks.copies() == []
    assert disks.node.values("t") == [b"v"]


def test_the_same_directory_again_changes_nothing(disks):
    """The move under way goes on."""
    disks.stand_still()
    disks.ask(disks.other)
    (move,) = disks.moving
    disks.ask(disks.other)
    assert list(disks.moving) == [move]
    assert len(disks.copies()) == 1


def test_moves_wait_in_line(make_disks):
    """So many are under way as threads are set; the others show as future logs already, and can be cancelled."""
    disks = make_disks(num_replica_alter_log_dirs_threads="1")
    disks.node.create("u", 3)
    disks.stand_still()
    moves = disks.node.node.moves
    for number in range(3):
        name = TopicPartition("u", number)
        place = disks.node.partition("u", number).partition.directory.path
        target = disks.other if place != disks.other else disks.home
        assert disks.node.run(moves.ask, name, target) is ErrorCode.NONE
    assert len(disks.moving) == 1
    assert len(disks.copies()) == 3
    shown = [one for directory in disks.node.node.directories.all for one in moves.in_directory(directory)]
    assert {one.topic_partition.partition for one in shown} == {0, 1, 2}
    place = disks.node.partition("u", 2).partition.directory.path
    disks.node.run(moves.ask, TopicPartition("u", 2), place)
    disks.set_rate(1 << 40)
    disks.ended()
    assert disks.copies() == []
    assert disks.node.partition("u", 2).partition.directory.path == place


def test_a_move_that_is_cancelled_while_it_waits_leaves_the_line(make_disks):
    """A client that names one directory and then another, very often, filled memory and the disk with moves that wait."""
    disks = make_disks(num_replica_alter_log_dirs_threads="1")
    disks.node.create("u")
    disks.stand_still()
    disks.ask(disks.other)
    moves, name = disks.node.node.moves, TopicPartition("u", 0)
    place = disks.node.partition("u").partition.directory.path
    targets = [path for path in (disks.home, disks.other, disks.third) if path != place]
    for number in range(20):
        assert disks.node.run(moves.ask, name, targets[number % 2]) is ErrorCode.NONE
        assert (len(moves._in_line), len(disks.copies())) == (1, 2)
    disks.node.run(moves.ask, name, place)
    assert (len(moves._in_line), len(disks.copies())) == (0, 1)
    disks.node.run(moves.ask, name, targets[0])
    disks.set_rate(1 << 40)
    disks.node.wait_until(lambda: disks.node.partition("u").partition.directory.path == targets[0])


def test_the_move_of_a_deleted_topic_holds_up_none_of_the_next_one_of_its_name(make_disks):
    """It was asked for, was said to begin, and never did: the move of before had its place."""
    disks = make_disks(num_replica_alter_log_dirs_threads="1")
    moves, name = disks.node.node.moves, TopicPartition("u", 0)
    disks.stand_still()
    disks.ask(disks.other)

    def place():
        return disks.node.partition("u").partition.directory.path

    def ask():
        disks.node.create("u")
        target = next(path for path in (disks.home, disks.other, disks.third) if path != place())
        assert disks.node.run(moves.ask, name, target) is ErrorCode.NONE
        return target

    ask()
    delete_topics(disks.node.client(), ["u"])
    disks.node.wait_until(lambda: disks.node.node.partitions.get(name) is None)
    target = ask()
    disks.set_rate(1 << 40)
    disks.node.wait_until(lambda: place() == target)


def test_a_move_that_waits_leaves_with_its_topic(make_disks, caplog):
    """Its directory outlived a stop, and each start took it for the copy of a log that is away."""
    disks = make_disks(num_replica_alter_log_dirs_threads="1")
    moves, name = disks.node.node.moves, TopicPartition("u", 0)
    disks.node.create("u")
    disks.stand_still()
    disks.ask(disks.other)
    place = disks.node.partition("u").partition.directory.path
    target = next(path for path in (disks.home, disks.other) if path != place)
    assert disks.node.run(moves.ask, name, target) is ErrorCode.NONE
    delete_topics(disks.node.client(), ["u"])
    disks.node.wait_until(lambda: disks.node.node.partitions.get(name) is None)
    disks.node.restart()
    assert not [one for one in disks.copies() if one.startswith("u-0")]
    assert "u-0." not in caplog.text


def test_a_stop_in_a_move_begins_it_again(disks):
    """The next start removes the copy and makes another."""
    disks.node.produce("t", b"v")
    disks.stand_still()
    disks.ask(disks.other)
    (before,) = disks.copies()
    disks.node.restart()
    disks.moved(disks.other)
    assert disks.copies() == []
    assert not Path(disks.other, before).exists()
    assert disks.node.values("t") == [b"v"]


def test_a_replica_that_is_not_here_yet_is_begun_where_it_was_asked_for(disks):
    """kafka-reassign-partitions names the directory before the replica comes; only partitions of the cluster count."""
    moves, hosted = disks.node.node.moves, disks.node.node.hosted
    unified = disks.node.partition("t")
    disks.node.run(hosted.table.remove, unified)
    try:
        assert disks.node.run(moves.ask, unified.topic_partition, disks.third) is ErrorCode.REPLICA_NOT_AVAILABLE
        assert hosted.logs._preferred[unified.topic_partition].path == disks.third
        absent = TopicPartition("absent", 0)
        assert disks.node.run(moves.ask, absent, disks.third) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert absent not in hosted.logs._preferred
    finally:
        disks.node.run(hosted.table.add, unified)


def test_a_failed_directory_is_reported_when_the_controller_takes_no_replica_to_be_there(disks, monkeypatch):
    """Each announcement of the directory is taken back first, and that is looked for until it is so."""
    looks, left = iter([True, True, False]), []
    node = disks.node.node
    monkeypatch.setattr(node.hosted.placing, "is_taken_for_home", lambda _directory: next(looks))
    target = disks.directory(disks.other)
    disks.node.run(lambda: node.moves.take_back(target, lambda: left.append(list(looks))))
    assert left == []
    disks.node.wait_until(lambda: left == [[]])


def test_figures_have_kafkas_names(disks):
    """The rate, the copy that lacks most, and replicas that could not be moved."""
    disks.node.produce("t", b"v")
    disks.stand_still()
    disks.ask(disks.other)
    text = disks.node.run(disks.node.node.metrics.render)
    text = text if isinstance(text, str) else text.decode()
    assert 'kafka_server_replicaalterlogdirsmanager_maxlag{clientId="ReplicaAlterLogDirs"} 1' in text
    assert 'kafka_server_replicaalterlogdirsmanager_failedpartitionscount{clientId="ReplicaAlterLogDirs"} 0' in text
    assert "kafka_server_alterlogdirsreplication_byte_rate 0" in text
