"""The way from a change that the disk has refused to the next machine."""

import asyncio
import errno
from types import SimpleNamespace

import pytest

from stratalog.broker.quorum import beginning_anew
from stratalog.broker.quorum.beginning_anew import BeginningAnew
from stratalog.broker.quorum.publishing import at_start
from stratalog.metadata.image.snapshot import SnapshotId
from stratalog.metadata.raft.log_view import LogView
from stratalog.metadata.raft.messages import OffsetAndEpoch
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError

FULL = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
OVERTAKEN = LogView(end_offset=4, snapshots=(OffsetAndEpoch(9, 1),))
BEHIND = LogView(start_offset=9, end_offset=9, snapshots=(OffsetAndEpoch(9, 1),))


@pytest.fixture
async def made(monkeypatch):
    """A replica whose disk has the log ``one.view``, and what has become of it."""
    monkeypatch.setattr(beginning_anew, "_FIRST_SECONDS", 0.001)
    monkeypatch.setattr(beginning_anew, "_SECONDS_MAX", 0.004)
    one = SimpleNamespace(view=BEHIND, now=1000.0, has_room=True, begun=[], asked=[], tasks=[])
    one.state, one.changes = SimpleNamespace(is_under_way=False), SimpleNamespace(is_loading=False, half_begun=None)
    one.refusals, one.unsettled, one.settled = [], [], 0

    def look():
        yield
        if one.refusals:
            raise one.refusals.pop()
        return one.view

    def settle():
        one.settled += 1
        if one.unsettled:
            raise one.unsettled.pop()

    async def begin_behind(snapshot):
        one.asked.append(snapshot)
        if one.has_room:
            one.view, one.refusals = BEHIND, []
        return one.has_room

    one.changes.begin_behind = begin_behind
    one.anew = BeginningAnew(
        SimpleNamespace(
            clock=SimpleNamespace(monotonic=lambda: one.now),
            replica=SimpleNamespace(settle=settle),
            in_slices=at_start,
            look=look,
        ),
        one.changes,
        one.state,
        beside=lambda work: one.tasks.append(asyncio.ensure_future(work)),
        begin=one.begun.append,
    )
    return one


async def test_the_pauses_grow_until_it_is_quiet(made, caplog):
    """The whole log is read each time, on a loop that also makes room."""
    for _ in range(4):
        made.anew.after(FULL)
        made.now += 5
    made.now += 60
    made.anew.after(FULL)
    said = [record.getMessage().rpartition(" in ")[2] for record in caplog.records]
    assert said == ["0.001 s", "0.002 s", "0.004 s", "0.004 s", "0.001 s"]
    await asyncio.sleep(0.02)
    assert made.begun == [BEHIND]  # one machine, however often it was asked for


@pytest.mark.parametrize("part", ["state", "changes"])
async def test_work_of_the_machine_before_ends_first(made, part):
    """A state of before would land on the new one's, a fetched snapshot on the next one's bytes."""
    if part == "state":
        made.state.is_under_way = True
    else:
        made.changes.is_loading = True
    made.anew.after(FULL)
    await asyncio.sleep(0.02)
    assert made.begun == []
    made.state.is_under_way = made.changes.is_loading = False
    await asyncio.sleep(0.02)
    assert made.begun == [BEHIND]


async def test_a_log_that_the_leaders_snapshot_has_overtaken_begins_behind_it_once_there_is_room(made):
    """The snapshot has its name, and the disk was full when the log was to go: that ends no node."""
    made.view, made.has_room = OVERTAKEN, False
    made.anew.after(FULL)
    await asyncio.sleep(0.02)
    assert (made.asked, made.begun) == ([(9, 1)], [])
    made.has_room = True
    made.anew.after(FULL)
    await asyncio.sleep(0.02)
    assert made.begun == [BEHIND]


async def test_a_log_that_has_half_begun_behind_a_snapshot_does_so_wholly_before_it_is_read(made):
    """Its files are partly gone, or the image reaches less far than the log's start: reading either would end the node."""
    made.changes.half_begun, made.refusals = SnapshotId(9, 1), [Corrupt("cannot be read at offset 0")]
    made.anew.after(FULL)
    await asyncio.sleep(0.02)
    assert (made.asked, made.begun) == ([(9, 1)], [BEHIND])


async def test_a_log_is_read_once_what_was_refused_is_taken_back(made):
    """Its end is that of the refused batches until then, and they are in no file: that was taken for damage."""
    made.unsettled = [OSError(errno.ENOSPC, "full")]
    made.anew.after(FULL)
    await asyncio.sleep(0.02)
    assert (made.begun, made.settled) == ([BEHIND], 2)


async def test_a_log_that_no_descriptor_is_left_for_is_read_later(made):
    """Clients may have taken them all; any other error of the disk ends the node."""
    made.refusals = [OSError(errno.EMFILE, "too many open files")]
    made.anew.after(FULL)
    await asyncio.sleep(0.02)
    assert made.begun == [BEHIND]
    made.refusals = [OSError(errno.EIO, "broken")]
    made.anew.after(FULL)
    await asyncio.sleep(0.02)
    with pytest.raises(OSError, match="broken"):
        await made.tasks[-1]


async def test_after_a_close_none_begins(made):
    """The node is ending, also if a change is refused only then."""
    made.anew.after(FULL)
    made.anew.close()
    made.anew.after(FULL)
    await asyncio.sleep(0.01)
    assert made.begun == []
