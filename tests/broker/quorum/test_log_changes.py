"""Actions about the log, carried out on a replica that notes them."""

import asyncio
import errno
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from stratalog.broker.quorum.batches import data_batch, parse_batches
from stratalog.broker.quorum.log_changes import LogChanges
from stratalog.broker.quorum.metadata_log import METADATA_LOG_CONFIG
from stratalog.broker.quorum.publishing import Publisher
from stratalog.broker.quorum.replica import MetadataReplica
from stratalog.broker.quorum.wire.metadata_topic import METADATA_PARTITION, METADATA_TOPIC_ID
from stratalog.hot.directory import LogDirectory
from stratalog.metadata.image.image import EMPTY_IMAGE, Provenance
from stratalog.metadata.image.record_values import record_values
from stratalog.metadata.image.replay import MetadataReplay
from stratalog.metadata.image.snapshot import SnapshotId, build_snapshot
from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft.events import Flushed, SnapshotLoaded
from stratalog.metadata.raft.messages import Batch, LeaderChange, OffsetAndEpoch
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import TopicRecord

SNAPSHOT = OffsetAndEpoch(8, 3)


class Replica:
    """Notes what is done to it; ``refusal`` is raised instead."""

    def __init__(self):
        self.done, self.refusal, self.threads, self.whole_batches_to = [], None, None, 99
        self.log = SimpleNamespace(flushed_offset=0, log_end_offset=9, directory="/m")
        self.directory = SimpleNamespace(report=lambda error, owner: self.done.append(("report", error.errno, owner)))
        self.content = b"".join(build_snapshot(EMPTY_IMAGE.apply((), Provenance(7, 3, 1))))

    def _do(self, *what):
        if self.refusal is not None:
            raise self.refusal
        self.done.append(what)

    def write(self, batches, *, epoch, now_ms):
        self._do("write", b"".join(map(bytes, batches)), epoch, now_ms)

    def sync(self):
        self._do("sync")

    def truncate(self, offset):
        self._do("truncate", offset)
        self.log.log_end_offset = min(offset, self.whole_batches_to)

    def delete_before(self, snapshot):
        self._do("delete", snapshot)

    def begin_behind(self, snapshot):
        self._do("begin", snapshot)

    def keep_chunk(self, snapshot, position, data):
        self._do("chunk", snapshot, position, data)

    def read_part(self, snapshot):
        self._do("read", snapshot)
        return self.content

    def read_snapshot(self, snapshot):
        self._do("read again", snapshot)
        return self.content

    def finish_snapshot(self, snapshot):
        self._do("finish", snapshot)


@pytest.fixture
async def made():
    """Changes of a log, the events and refusals that come of them, in one namespace."""
    one = SimpleNamespace(replica=Replica(), events=[], tasks=[], refused=[], failed=[], images=[])

    async def replace(image, quorum):
        one.images.append((image.provenance.offset, quorum.kraft_version))

    async def halted():
        one.replica.done.append(("halted",))

    async def removed(_snapshot):
        one.replica.done.append(("removed",))

    one.changes = LogChanges(
        one.replica,
        SimpleNamespace(
            image=EMPTY_IMAGE, replace=replace, halt=halted, go_on=lambda: one.replica.done.append(("go on",))
        ),
        SimpleNamespace(grown=lambda _bytes: None, remove_before=removed, write=removed, loaded=lambda _one: None),
        SimpleNamespace(wall_ms=lambda: 5),
        take=one.events.append,
        beside=lambda work: one.tasks.append(asyncio.ensure_future(work)),
        on_refused=one.refused.append,
        on_failed=lambda: one.failed.append(1),
    )
    return one


def batch(offset, data=None, control=()):
    return Batch(offset, offset + 1, 3, control, data)


async def test_a_leaders_batches_are_written_as_they_came_and_own_control_records_are_encoded(made):
    """The epoch of each is its own."""
    records = bytes(data_batch([b"v"], base_offset=4, epoch=3, timestamp_ms=1))
    made.changes.append(act.Append((batch(4, records), batch(5, control=(LeaderChange(1),)))))
    (_, first, epoch, now_ms), (_, second, _, _) = made.replica.done
    assert (first, epoch, now_ms) == (records, 3, 5)
    (parsed,) = parse_batches(second)
    assert (parsed.base_offset, parsed.control[0].leader_id) == (5, 1)


async def test_a_proposal_that_was_placed_is_not_written_twice(made):
    """The machine asks for it after the fact."""
    data = data_batch([b"v"], base_offset=4, epoch=3, timestamp_ms=1)
    made.changes.place(batch(4, data))
    made.changes.append(act.Append((batch(4, data),)))
    assert [one[0] for one in made.replica.done] == ["write"]


async def test_a_sync_names_the_log_that_it_is_about(made):
    """The count of cuts tells an old log's sync from the new one's; a log that is on disk already needs none."""
    made.changes.flush(act.Flush(4, 0))
    assert made.replica.done == [("sync",)]
    made.replica.log.flushed_offset = 4
    made.replica.on_synced()
    made.changes.truncate(act.Truncate(2))
    made.changes.flush(act.Flush(3, 1))
    assert made.events == [Flushed(4, 0), Flushed(4, 1)]


@pytest.mark.parametrize(
    ("change", "owner"),
    [
        (lambda changes: changes.truncate(act.Truncate(2)), True),
        (lambda changes: changes.delete_before(act.DeleteLogBefore(SNAPSHOT)), True),
        (lambda changes: changes.keep_chunk(act.WriteSnapshotChunk(SNAPSHOT, 0, b"x")), None),
    ],
)
async def test_a_disk_that_refuses_a_change_has_the_machine_begin_anew(made, change, owner):
    """The log is other than the machine believes, and is put in order; one beside which a file was refused is not."""
    made.replica.refusal = OSError(28, "full")
    change(made.changes)
    assert [error.code for error in made.refused] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert ("report", 28, owner and made.replica) in made.replica.done


async def test_a_cut_inside_a_batch_has_the_machine_begin_anew(made):
    """A log of another past, whose batch reaches over the offset at which the leader's ends, is cut before that batch."""
    made.replica.whole_batches_to = 2
    made.changes.truncate(act.Truncate(2))
    assert not made.refused
    made.changes.truncate(act.Truncate(4))
    assert "/m was cut at offset 4 and ends at 2" in made.refused[0].message


async def test_a_batch_that_finds_no_room_ends_the_append(made):
    """The batches behind it are not written either."""
    made.replica.refusal = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
    made.changes.append(act.Append((batch(4, b"a"), batch(5, b"b"))))
    assert len(made.refused) == 1


async def test_a_fetched_snapshot_takes_the_logs_place_before_its_image_is_shown(made):
    """Its file first, then the empty log behind it, then the image, then the event."""
    made.changes.load_snapshot(act.LoadSnapshot(SNAPSHOT))
    await asyncio.gather(*made.tasks)
    assert [one[0] for one in made.replica.done] == ["read", "finish", "halted", "begin"]
    assert made.images == [(7, 0)]
    (event,) = made.events
    assert isinstance(event, SnapshotLoaded)
    assert (event.snapshot, event.kraft_version) == (SNAPSHOT, 0)


async def test_a_snapshot_that_cannot_be_read_gets_no_name(made):
    """The log stays as it is, and the machine begins anew: it asks for the snapshot again."""
    made.replica.content = b"damaged"
    made.changes.load_snapshot(act.LoadSnapshot(SNAPSHOT))
    await asyncio.gather(*made.tasks)
    assert [error.code for error in made.refused] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert made.events == []
    assert [one[0] for one in made.replica.done] == ["read"]


async def test_a_snapshot_on_its_way_does_not_replace_the_log_of_another_machine(made):
    """The one that began anew knows nothing of it."""
    made.changes.load_snapshot(act.LoadSnapshot(SNAPSHOT))
    made.changes.forget()
    await asyncio.gather(*made.tasks)
    assert made.events == []
    assert made.images == []
    assert [one[0] for one in made.replica.done] == ["read", "finish", "halted", "go on"]


async def test_a_log_begins_behind_a_snapshot_that_came_when_there_was_no_room(made):
    """The image of before reaches less far: that of the snapshot takes its place."""
    made.changes.load_snapshot(act.LoadSnapshot(SNAPSHOT))
    assert made.changes.is_loading
    begin, made.replica.begin_behind = made.replica.begin_behind, refuse
    await asyncio.gather(*made.tasks)
    assert not made.changes.is_loading
    made.changes.forget()
    assert not await made.changes.begin_behind(SnapshotId(*SNAPSHOT))
    assert len(made.refused) == 2
    assert made.changes.half_begun == SNAPSHOT
    assert ("go on",) not in made.replica.done
    made.replica.begin_behind = begin
    assert await made.changes.begin_behind(SnapshotId(*SNAPSHOT))
    assert made.changes.half_begun is None
    assert made.replica.done[-3:] == [("read again", SNAPSHOT), ("halted",), ("begin", SNAPSHOT)]
    assert (made.images, made.events) == ([(7, 0)], [])


async def test_a_log_begins_behind_a_snapshot_that_the_image_has(made):
    """The image stays, and none is published meanwhile; the one after goes on from there."""
    made.changes._publisher.image = EMPTY_IMAGE.apply((), Provenance(9, 3, 1))
    begin, made.replica.begin_behind = made.replica.begin_behind, refuse
    assert not await made.changes.begin_behind(SnapshotId(*SNAPSHOT))
    assert made.replica.done[-2:] == [("halted",), ("report", 28, made.replica)]
    made.replica.begin_behind = begin
    assert await made.changes.begin_behind(SnapshotId(*SNAPSHOT))
    assert made.replica.done[-3:] == [("halted",), ("begin", SNAPSHOT), ("go on",)]
    assert made.images == []


@pytest.mark.parametrize("refused_name", ["0001.index.deleted", "0000.log.deleted"])
async def test_committed_records_are_not_read_from_a_log_that_has_half_begun(tmp_path, watched_files, refused_name):
    """They are in the snapshot. A follower of the image was slow, and some of them were not applied when it came."""
    events, refused, ended = [], [], []
    go_on, at_work = asyncio.Event(), asyncio.Event()

    async def follow(_image, _change):
        at_work.set()
        await go_on.wait()

    with ThreadPoolExecutor(1) as threads:
        log = LogDirectory(str(tmp_path), watched_files).open_log(
            METADATA_PARTITION, METADATA_TOPIC_ID, METADATA_LOG_CONFIG, now_ms=0, refuse_damage=True
        )
        writer = SimpleNamespace(add=lambda _owner: None, offline=None, report=lambda _error, _owner: None)
        replica = MetadataReplica(log, directory=writer, files=watched_files, threads=threads)
        for number in range(3):
            replica.write([topic_batch(number, 1)], epoch=1, now_ms=7)
            log.roll()
        publisher = Publisher(replica, watched_files, on_failed=ended.append)
        publisher.follow(follow)
        changes = LogChanges(
            replica,
            publisher,
            SimpleNamespace(loaded=lambda _one: None),
            SimpleNamespace(wall_ms=lambda: 5),
            take=events.append,
            beside=lambda work: events.append(asyncio.ensure_future(work)),
            on_refused=lambda error: (refused.append(error), changes.forget()),
            on_failed=lambda: None,
        )
        publisher.expect((topic(0),), Provenance(0, 1, 7))
        publisher.committed(3)
        await at_work.wait()
        leaders = MetadataReplay()
        leaders.replay(topic_batch(0, 9))
        snapshot = SnapshotId(9, 1)
        replica.keep_chunk(snapshot, 0, b"".join(build_snapshot(leaders.image())))
        changes.load_snapshot(act.LoadSnapshot(OffsetAndEpoch(*snapshot)))
        while not publisher._halted:  # noqa: ASYNC110 - it tells no one
            await asyncio.sleep(0.001)
        watched_files.fail("rename", refused_name, errno.ENOSPC)
        go_on.set()
        await asyncio.gather(*events)
        watched_files.faults.clear()
        assert (len(refused), changes.half_begun) == (1, snapshot)
        await asyncio.sleep(0)
        assert await changes.begin_behind(snapshot)
        await asyncio.wait_for(publisher.reached(9), 5)
        assert ended == []
        log.abandon()


def topic(number):
    return TopicRecord(name=f"t{number}", topic_id=number.to_bytes(16, "big"))


def topic_batch(first, count):
    values = list(record_values([topic(number) for number in range(first, first + count)], 30))
    return data_batch(values, base_offset=first, epoch=1, timestamp_ms=7)


async def test_a_machine_that_begins_behind_a_snapshot_hears_of_its_syncs(made):
    """It counts cuts from its own beginning; a sync of another count would be that of a log that is gone."""
    made.changes.forget()
    assert await made.changes.begin_behind(SnapshotId(*SNAPSHOT))
    made.changes.flush(act.Flush(0, 0))
    assert made.events == [Flushed(0, 0)]


def refuse(_snapshot):
    raise OSError(28, "full")
