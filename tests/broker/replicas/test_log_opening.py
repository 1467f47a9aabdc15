"""Logs open where they lie; those that cannot be opened stop no others."""

import errno
import shutil
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from stratalog.broker.replicas import log_opening
from stratalog.broker.replicas.led import Led
from stratalog.broker.replicas.log_opening import LogOpening
from stratalog.client.admin import delete_topics
from stratalog.hot.directory import LogDirectory
from stratalog.hot.storage.directory_names import FoundPartition
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.image.directory_ids import LOST, MIGRATING, UNASSIGNED
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from stratalog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from stratalog.wire.topic import TopicPartition, uuid_text


def test_partitions_are_spread_over_the_directories(start_node, tmp_path):
    """And open where they lie after a restart, whatever the counts are then."""
    names = ("a", "b", "c")
    node = start_node(log_dirs=",".join(str(tmp_path / name) for name in names))
    node.create("t", 6)

    def places():
        return {number: node.partition("t", number).partition.directory.path for number in range(6)}

    before = places()
    assert sorted(before.values()) == sorted(str(tmp_path / name) for name in names for _ in range(2))
    node.produce("t", b"v", partition=5)
    node.restart()
    assert places() == before
    assert node.values("t", 5) == [b"v"]


def test_files_of_another_topic_of_the_name_are_set_aside(broker):
    """A deletion that a crash cut off between the record and the files loses nothing and shows nothing."""
    broker.create("t")
    broker.produce("t", b"old")
    data = Path(broker.directory, "data")
    saved = {path.name: path.read_bytes() for path in (data / "t-0").iterdir()}
    delete_topics(broker.client(), ["t"])
    broker.stop()
    (data / "t-0").mkdir()
    for name, content in saved.items():
        (data / "t-0" / name).write_bytes(content)
    broker.start()
    broker.create("t")
    assert broker.values("t") == []
    (stray,) = data.glob("t-0.*-stray")
    assert b"old" in (stray / "00000000000000000000.log").read_bytes()
    assert broker.produce("t", b"new") == [0]


def test_a_log_that_ends_below_its_log_start_goes_on_there(broker):
    """A power cut has dropped records that were not synced, and the checkpoint of the log start was."""
    broker.create("t")
    for _ in range(3):
        broker.produce("t", b"v")
    asked = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
    broker.client().call(DeleteRecordsRequest(topics=[asked], timeout_ms=9999))
    broker.stop()
    data = Path(broker.directory, "data")
    (data / "t-0" / f"{0:020d}.log").write_bytes(b"")
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (data / name).unlink()
    broker.start()
    log = broker.partition("t").partition.log
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (2, 2, 2)
    assert broker.produce("t", b"new") == [2]
    assert broker.values("t", 0, 2) == [b"new"]


@pytest.mark.parametrize(
    "harm", [*(pytest.param(one, marks=pytest.mark.story) for one in ("directory", "error")), "mistake"]
)
def test_one_partition_that_cannot_be_opened_stops_no_other(broker, caplog, monkeypatch, harm):
    """It is offline with an error that names it; the rest of its directory is served."""
    for topic in ("bad", "good"):
        broker.create(topic)
        broker.produce(topic, b"v")
    broker.stop()
    data = Path(broker.directory, "data")
    if harm == "directory":
        shutil.rmtree(data / "bad-0")
        (data / "bad-0").write_bytes(b"")
        (data / ".kafka_cleanshutdown").unlink()
    else:
        real = LogDirectory.open_log

        def open_log(directory, name, *arguments, **options):
            if name.topic == "bad":
                raise Corrupt("bad-0 is bad") if harm == "error" else ValueError("a mistake")
            return real(directory, name, *arguments, **options)

        monkeypatch.setattr(LogDirectory, "open_log", open_log)
    broker.start()
    assert broker.values("good") == [b"v"]
    assert broker.produce("good", b"w") == [1]
    monkeypatch.setattr(broker, "client", partial(broker.client, timeout_seconds=1.0))  # it waits for a leader
    with pytest.raises(KafkaError) as caught:
        broker.produce("bad", b"w")
    assert caught.value.code in {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.LEADER_NOT_AVAILABLE}
    (told,) = [one for one in caplog.records if "bad-0 cannot be opened" in one.getMessage()]
    assert "the other partitions are served" in told.getMessage()
    assert bool(told.exc_info) is (harm == "mistake")


def test_every_partition_is_counted_once(broker):
    """Deleting gives its place back."""
    broker.create("a", 2)
    broker.create("b", 3)
    assert len(broker.node.partitions) == 5
    delete_topics(broker.client(), ["a"])
    assert len(broker.node.partitions) == 3
    assert sum(broker.node.hosted.logs.counts.values()) == 3


def test_new_logs_that_wait_for_their_sync_are_counted(broker, monkeypatch):
    """Their share of the descriptors is half of that of segments; a sync gives it back."""
    opening, (directory,) = (
        LogOpening(broker.node.directories, broker.node.hosted.table, broker.node.clock, segments_open_max=12),
        broker.node.directories.all,
    )

    def behind(count):
        with monkeypatch.context() as patched:
            patched.setattr(directory.writer, "_begin_cycle", lambda: None)
            for _ in range(count):
                directory.writer.sync_unhurried(object())
            found = opening.is_behind
        directory.writer._unhurried.clear()
        return found

    assert [broker.run(lambda count=count: behind(count)) for count in (0, 2, 3, 4)] == [False, False, True, True]


def test_a_partition_that_finds_no_room_is_opened_later(start_node, watched_files):
    """Until then its clients hear of the disk; what was lost with a wiped disk is never taken for new."""
    seen = []
    node = start_node(files=watched_files)
    node.create("t")
    node.produce("t", b"v")
    node.stop()
    shutil.rmtree(Path(node.directory, "data", "t-0"))
    watched_files.fail("open", "/t-0/", errno.ENOSPC)
    node.start()
    node.node.hosted._services = replace(node.node.hosted._services, on_led=lambda _, led: seen.append(led))
    with pytest.raises(KafkaError) as refused:
        node.partition("t")
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    watched_files.faults.clear()
    node.wait_until(lambda: len(node.node.partitions) == 1)
    assert seen == [Led.LOST]


@pytest.mark.parametrize(
    ("placed_in", "opens"), [(UNASSIGNED, True), (MIGRATING, True), (b"?" * 16, False), ("online", True)]
)
def test_a_log_that_may_lie_in_a_failed_directory_is_not_begun_anew(start_node, tmp_path, placed_in, opens):
    """The disk may come back, and there would be two. A partition that has no directory yet goes to one that is online."""
    node = start_node(log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    first, second = node.node.directories.all
    opening = node.node.hosted.logs
    placed_in = second.directory_id if placed_in == "online" else placed_in
    node.run(lambda: first.writer.report(OSError(5, "Input/output error")))

    def open_new():
        config = node.node.hosted.settings(node.node.image, "new")
        return opening.open(TopicPartition("new", 0), b"n" * 16, config, leader_epoch_max=1, placed_in=placed_in)

    opened = node.run(open_new)
    assert (opened is not None) is opens
    assert opened is None or opened.directory is second


@pytest.mark.parametrize(
    ("placed_in", "counts", "opens"),
    [(b"?" * 16, True, False), (b"?" * 16, False, True), (UNASSIGNED, True, True), ("mine", True, True)],
)
def test_a_replica_that_counts_is_not_begun_anew_for_one_on_another_disk(broker, caplog, placed_in, counts, opens):
    """Its disk was replaced: an empty log would lead, and the other replicas drop what they have."""
    opening, node = broker.node.hosted.logs, broker.node
    placed_in = node.directories.all[0].directory_id if placed_in == "mine" else placed_in

    def open_new():
        config = node.hosted.settings(node.image, "new")
        name = TopicPartition("new", 0)
        return opening.open(name, b"n" * 16, config, leader_epoch_max=1, placed_in=placed_in, is_counted_on=counts)

    assert (broker.run(open_new) is not None) is opens
    is_elsewhere = placed_in == b"?" * 16
    assert ("its log is gone" in caplog.text) is (is_elsewhere and opens)
    assert (f"directory {uuid_text(b'?' * 16)}, which is none of this broker's" in caplog.text) is is_elsewhere
    if not opens:
        assert node.directories.holding(TopicPartition("new", 0)) == []


@pytest.mark.parametrize("whole", [False, True])
def test_a_replica_that_counts_is_not_begun_anew_for_one_that_is_gone(broker, caplog, whole):
    """Its directory has the id that it had, and the log is not in it any more. The next start knows it, too."""
    broker.create("t")
    broker.stop()
    data = Path(broker.directory, "data")
    shutil.rmtree(data / "t-0")
    if whole:
        (data / "recovery-point-offset-checkpoint").unlink()
    name, opening = TopicPartition("t", 0), None

    def open_it(placed_in, *, counts=True):
        config = broker.node.hosted.settings(broker.node.image, "t")
        return opening.open(name, topic_id, config, leader_epoch_max=1, placed_in=placed_in, is_counted_on=counts)

    left = LogDirectory.load(str(data), RealFilesystem())
    broker.start()
    (directory,) = broker.node.directories.all
    mine, topic_id = directory.directory_id, broker.node.image.topics.by_name["t"].topic_id
    assert broker.run(lambda: broker.node.directories.that_lost(name, mine)) is None, "it was begun anew: it is alone"
    directory.files.partitions.pop(name, None)
    directory.files.is_bare, directory.files.gone = left.is_bare, left.gone
    opening = LogOpening(broker.node.directories, broker.node.hosted.table, broker.node.clock, segments_open_max=9)
    assert broker.run(lambda: open_it(mine)) is None
    broker.run(lambda: opening.started(lambda one: one == name, tuple))
    assert broker.run(lambda: open_it(mine)) is None, "the controller has not heard of it yet"
    assert broker.run(lambda: open_it(LOST)) is None
    assert opening.given_up == {name: topic_id}
    broker.run(lambda: directory.files.write_recovery_points({}))
    assert name in LogDirectory.load(str(data), RealFilesystem()).recovery_points, "the next start knows it, too"
    assert "its log is gone from" in caplog.text
    opened = broker.run(lambda: open_it(LOST, counts=False))
    assert (opened.led, opening.given_up, directory.files.gone) == (Led.LOST, {}, set())


def test_a_start_forgets_logs_that_lie_on_other_brokers_and_no_others(broker):
    """One that could not be looked at so far, as its opening failed, is still gone when it can."""
    (directory,) = broker.node.directories.all
    broker.create("t")
    here, elsewhere = TopicPartition("t", 0), TopicPartition("u", 0)
    directory.files.gone = {here, elsewhere}
    directory.files.recovery_points |= dict.fromkeys(directory.files.gone, 0)
    broker.run(broker.node.hosted.started)
    assert directory.files.gone == {here}
    assert elsewhere not in directory.files.recovery_points


def test_an_only_log_that_is_gone_does_not_begin_anew_without_a_word(broker, caplog):
    """The records are lost: the operator is the first to know, not the last. A new topic is no such log."""
    broker.create("t")
    broker.produce("t", b"v")
    assert "its log is gone" not in caplog.text
    broker.stop()
    shutil.rmtree(Path(broker.directory, "data", "t-0"))
    broker.start()
    assert broker.values("t") == []
    (told,) = [one.getMessage() for one in caplog.records if "its log is gone" in one.getMessage()]
    assert told.startswith(f"t-0: its log is gone from {broker.directory}/data, and no other broker has one")


def test_an_empty_disk_in_the_place_of_another_is_noticed(start_node, tmp_path, caplog):
    """By each log that was on it. A directory that is new, and took nothing's place, is not."""
    directories = f"{tmp_path}/a,{tmp_path}/b"
    node = start_node(log_dirs=directories)
    node.create("t", 4)
    node.stop()
    node = start_node(log_dirs=f"{directories},{tmp_path}/c")
    assert "its log is gone" not in caplog.text
    node.stop()
    Path(tmp_path, "b").rename(tmp_path / "dead")
    node = start_node(log_dirs=f"{directories},{tmp_path}/c")
    told = [one.getMessage() for one in caplog.records if "its log is gone" in one.getMessage()]
    gone = {path.name for path in (tmp_path / "dead").glob("t-*")}
    assert gone
    assert {one.split(":")[0] for one in told} == gone
    assert all(f"{tmp_path}/b" in one for one in told)


def test_a_topic_that_is_made_again_has_nothing_of_the_one_before(broker, tmp_path, caplog):
    """A kill before the next checkpoint: its log was called damaged, and began behind its records, by rows of the other."""
    broker.create("t")
    broker.produce("t", *[b"old"] * 10)
    asked = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=6)])
    broker.client().call(DeleteRecordsRequest(topics=[asked], timeout_ms=9999))
    delete_topics(broker.client(), ["t"])
    broker.create("t")
    broker.produce("t", b"new", b"newer")
    data = Path(broker.directory, "data")
    shutil.copytree(data, tmp_path / "as a kill leaves it")
    broker.stop()
    shutil.rmtree(data)
    shutil.copytree(tmp_path / "as a kill leaves it", data)
    broker.start()
    assert broker.values("t") == [b"new", b"newer"]
    log = broker.partition("t").partition.log
    assert (log.log_start_offset, log.recovery.damaged_offset) == (0, None)
    assert "lost records" not in caplog.text


def test_checkpoints_are_made_in_steps_before_a_topic_is_made_again(broker, monkeypatch):
    """In one go those of 33,000 partitions took half a second."""
    broker.create("t")
    delete_topics(broker.client(), ["t"])
    (directory,) = broker.node.directories.all
    assert list(directory.files.stale) == [TopicPartition("t", 0)]
    found = []
    monkeypatch.setattr(log_opening, "drop_stale_rows", lambda files, name: found.append(name in files.stale))
    broker.create("t")
    broker.produce("t", b"new")
    assert (found, directory.files.stale) == ([False], {})


def test_a_partition_that_is_put_down_again_between_the_steps_is_opened_once(broker, monkeypatch):
    """An image may come meanwhile."""
    logs, due, opened = broker.node.hosted.logs, broker.node.hosted.table.due, []

    def put_down_again(name):
        if name.topic == "t":
            due.add("t", broker.node.image.topics.by_name["t"].topic_id, name.partition)
        yield

    real = logs.open
    monkeypatch.setattr(logs, "dropping_stale_rows", put_down_again)
    monkeypatch.setattr(logs, "open", lambda name, *about, **more: opened.append(name) or real(name, *about, **more))
    broker.create("t")
    broker.produce("t", b"new")
    assert opened.count(TopicPartition("t", 0)) == 1


def test_a_log_of_a_deleted_topic_is_not_missed(broker):
    """A topic of its name begins anew, here and after the next start."""
    (directory,) = broker.node.directories.all
    hosted, name = broker.node.hosted, TopicPartition("t", 0)
    opening, config = hosted.logs, hosted.settings(broker.node.image, "t")

    def open_it(topic_id):
        placed = {"placed_in": directory.directory_id, "is_counted_on": True}
        return opening.open(name, topic_id, config, leader_epoch_max=1, **placed)

    directory.files.gone = {name}
    assert broker.run(lambda: open_it(b"1" * 16)) is None
    assert broker.run(lambda: open_it(b"2" * 16)) is not None, "a topic of this name was made while its broker was away"
    broker.run(lambda: opening.forget_topic("t", b"1" * 16))
    assert opening.given_up == {}
    gone = TopicPartition("gone", 0)
    directory.files.gone, opening.given_up = {gone}, {gone: b"3" * 16}
    directory.files.recovery_points[gone] = 0
    broker.run(lambda: list(hosted.deleting("gone", b"4" * 16)))
    assert opening.given_up == {gone: b"3" * 16}, "that was a former topic of its name"
    broker.run(lambda: list(hosted.deleting("gone", b"3" * 16)))
    assert (opening.given_up, directory.files.gone) == ({}, set())
    assert gone not in directory.files.recovery_points


def test_a_log_that_was_never_begun_is_new(broker):
    """The broker was killed before it made the directory."""
    (directory,) = broker.node.directories.all
    hosted, name = broker.node.hosted, TopicPartition("new", 0)
    opening = LogOpening(broker.node.directories, hosted.table, broker.node.clock, segments_open_max=9)
    config = hosted.settings(broker.node.image, "new")

    def open_new():
        placed = {"placed_in": directory.directory_id, "is_counted_on": True}
        return opening.open(name, b"n" * 16, config, leader_epoch_max=1, **placed)

    assert broker.run(open_new) is not None


def test_a_log_in_a_failed_directory_is_not_opened(start_node, tmp_path, caplog):
    """Its partition says so."""
    node = start_node(log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    first, _ = node.node.directories.all
    name = TopicPartition("t", 0)
    first.files.partitions[name] = FoundPartition(name, b"t" * 16, f"{first.path}/t-0")
    node.run(lambda: first.writer.report(OSError(5, "Input/output error")))
    config = node.node.hosted.settings(node.node.image, "t")
    assert node.run(lambda: node.node.hosted.logs.open(name, b"t" * 16, config, leader_epoch_max=1)) is None
    assert "which is offline" in caplog.text


def test_a_log_is_begun_where_it_was_asked_for(start_node, tmp_path):
    """AlterReplicaLogDirs came before the replica: the directory counts once, and not while it is offline."""
    node = start_node(log_dirs=f"{tmp_path}/one,{tmp_path}/two")
    node.create("a")
    directories, hosted = node.node.directories, node.node.hosted
    of = {one.path: one for one in directories.all}
    for number, wanted in enumerate([f"{tmp_path}/one", f"{tmp_path}/one", f"{tmp_path}/two"]):
        name = TopicPartition(f"t{number}", 0)
        node.run(hosted.logs.prefer, name, of[wanted])
        node.create(name.topic)
        assert node.partition(name.topic).partition.directory.path == wanted
    assert hosted.logs._preferred == {}


def test_only_so_many_wishes_are_remembered(broker, monkeypatch):
    """The oldest is forgotten."""
    monkeypatch.setattr("stratalog.broker.replicas.log_opening._PREFERRED_MAX", 2)
    (directory,) = broker.node.directories.all
    for number in range(3):
        broker.run(broker.node.hosted.logs.prefer, TopicPartition("later", number), directory)
    assert [name.partition for name in broker.node.hosted.logs._preferred] == [1, 2]
