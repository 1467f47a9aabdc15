"""Followers whose position lies outside their leader's log."""

import asyncio
from types import SimpleNamespace

import pytest

from stratalog.broker.replicas.log_position import LogPosition
from stratalog.broker.replication.correcting import Correcting
from stratalog.broker.replication.tier_start import ArchiveAccess
from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.manifests.view import PackedEntries
from stratalog.tier.messages import commands
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.work import Worker
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.broker.replication.stand_ins import TOPIC_ID, Links, Role, turns


@pytest.fixture
def outcome():
    """Hears whether a role may go on."""
    heard = SimpleNamespace(told=[])
    heard.taken = lambda role, position: heard.told.append(("taken", position.offset))
    heard.refused = lambda role, position: heard.told.append(("refused", position.offset))
    return heard


def told(offset, code=ErrorCode.NONE, number=0):
    one = ListOffsetsPartitionResponse(partition_index=number, offset=offset, error_code=code)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[one])])


async def asked(links, *offsets, code=ErrorCode.NONE):
    """The leader answers with these ends; what it was asked for."""
    wanted = []
    for offset in offsets:
        await turns()
        _, request, future = links.newest()
        wanted.append(request.topics[0].partitions[0].timestamp)
        assert (request.replica_id, request.topics[0].partitions[0].current_leader_epoch) == (2, 5)
        future.set_result(told(offset, code, request.topics[0].partitions[0].partition_index))
    await turns()
    return wanted


async def test_the_log_is_moved_into_the_leaders(outcome):
    """Its start and its end, as a replica sees them, are asked for in the role's epoch."""
    links, role = Links(), Role()
    Correcting(links, 7, local_id=2, timeout_ms=1000).begin(role, outcome, is_archived=False)
    assert await asked(links, 30, 90) == [-2, -1]
    assert (role.moved, outcome.told) == ((30, 90), [("taken", 30)])


async def test_a_log_that_is_moved_in_steps_leaves_the_loop_between_them(outcome):
    """A cut may last for seconds; a role that has ended meanwhile has no more steps."""
    links, role, seen = Links(), Role(), []
    move = role.move_into

    def move_in_steps(start, end):
        seen.append("step")
        asyncio.get_running_loop().call_soon(seen.append, "others")
        return len(seen) < 4 or bool(move(start, end))

    role.move_into = move_in_steps
    Correcting(links, 7, local_id=2, timeout_ms=1000).begin(role, outcome, is_archived=False)
    await asked(links, 30, 90)
    await turns()
    assert seen == ["step", "others"] * 3
    assert outcome.told == [("taken", 30)]


async def test_a_leader_that_does_not_tell_is_asked_again_later(outcome, caplog):
    """It may lead no longer."""
    links, role = Links(), Role()
    Correcting(links, 7, local_id=2, timeout_ms=1000).begin(role, outcome, is_archived=False)
    await asked(links, -1, code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert (role.moved, outcome.told) == (None, [("refused", 0)])
    assert "no place to go on" in caplog.text


async def test_a_leader_that_leaves_a_partition_out_is_asked_again_later(outcome):
    """It is like one that does not know it."""
    links, role = Links(), Role()
    Correcting(links, 7, local_id=2, timeout_ms=1000).begin(role, outcome, is_archived=False)
    await turns()
    links.newest()[2].set_result(ListOffsetsResponse(topics=[]))
    await turns()
    assert (role.moved, outcome.told) == (None, [("refused", 0)])


async def test_a_log_that_is_in_its_place_already_is_asked_for_again_after_a_pause(outcome):
    """Its leader refuses it for another reason, perhaps for good: at once it would be asked some hundred times a second."""
    links, role = Links(), Role()
    role.position = LogPosition(30, -1, 30)
    Correcting(links, 7, local_id=2, timeout_ms=1000).begin(role, outcome, is_archived=False)
    await asked(links, 30, 90)
    assert (role.moved, outcome.told) == ((30, 90), [("refused", 30)])


def archive_ending_at(remote_end, *, owner=0, **fields):
    """A bucket whose partition ends there, with one epoch and one object."""

    def submit(command, answered):
        found = {"deleted": False, "newest_key": "newest", "leader_epochs": ((4, 0),), **fields}
        view = SimpleNamespace(remote_end=remote_end, claimant=SimpleNamespace(incarnation=owner), **found)
        read = commands.ManifestRead(view) if isinstance(command, commands.ReadManifest) else None
        report = read or commands.RestartStateRead("newest", (), b"producers")
        asyncio.get_running_loop().call_soon(answered, report)

    return ArchiveAccess(submit, lambda: 0)


async def test_archived_records_are_not_copied(outcome):
    """The log begins at the archive's end, which the manifest tells after the leader has told where its disk begins."""
    links, role = Links(), Role()
    correcting = Correcting(links, 7, local_id=2, timeout_ms=1000, archive=archive_ending_at(80))
    correcting.begin(role, outcome, is_archived=True)
    assert await asked(links, 3, 60) == [-2, -4]
    await turns()
    assert role.begun == (80, (EpochEntry(4, 0),), b"producers", 3)
    assert outcome.told == [("taken", 80)]


@pytest.mark.parametrize("is_archived", [True, False])
async def test_the_segments_of_a_log_that_begins_anew_go_first_and_others_have_their_turns(outcome, is_archived):
    """Each of them costs syncs of its directory."""
    links, role = Links(), Role()
    role.segments = 3
    correcting = Correcting(links, 7, local_id=2, timeout_ms=1000, archive=archive_ending_at(80))
    correcting.begin(role, outcome, is_archived=is_archived)
    await asked(links, 3, 60)
    await turns()
    assert (role.moved, role.begun, outcome.told) == (None, None, [])
    for _ in range(50):
        await asyncio.sleep(0.002)
    assert role.segments == 0
    assert outcome.told == [("taken", 80 if is_archived else 3)]


async def test_a_log_that_goes_on_keeps_its_segments(outcome):
    """Its leader's begins below its end."""
    links, role = Links(), Role()
    role.segments, role.position = 3, LogPosition(50, 4, 0)
    Correcting(links, 7, local_id=2, timeout_ms=1000).begin(role, outcome, is_archived=False)
    await asked(links, 30, 40)
    assert (role.segments, role.moved) == (3, (30, 40))


async def test_records_that_another_cluster_has_archived_are_none_of_the_logs(outcome):
    """It owns the archive by now. Behind the leader's local start the records are on this cluster's disks alone."""
    links, role = Links(), Role()
    archive = archive_ending_at(80, owner=1, leader_epochs=((4, 0), (70_000, 60)), entries=PackedEntries())
    correcting = Correcting(links, 7, local_id=2, timeout_ms=1000, archive=archive)
    correcting.begin(role, outcome, is_archived=True)
    assert await asked(links, 3, 60) == [-2, -4]
    await turns()
    assert role.begun == (60, (EpochEntry(4, 0),), None, 3)
    assert outcome.told == [("taken", 60)]


@pytest.mark.parametrize("remote_end", [50, 70])
async def test_a_copy_does_not_go_back_to_an_archive_that_ends_before_it(outcome, caplog, remote_end):
    """Its leader's disk has a hole, and the bucket is from earlier than the leader knows: the copy may have the last records."""
    links, role = Links(), Role()
    role.position, role.segments = LogPosition(70, 4, 3), 9
    correcting = Correcting(links, 7, local_id=2, timeout_ms=1000, archive=archive_ending_at(remote_end))
    correcting.begin(role, outcome, is_archived=True)
    await asked(links, 3, 3)
    await turns()
    assert (role.begun, role.evicted, outcome.told) == (None, None, [("refused", 70)])
    assert f"its archive ends at offset {remote_end}, and this copy at 70" in caplog.text


async def test_a_copy_that_finds_no_archive_names_the_setting_to_compare(outcome, caplog):
    """A new broker with a wrong bucket: its leader evicts what that one lacks, and nothing else is wrong."""
    links, role = Links(), Role()
    correcting = Correcting(links, 7, local_id=2, timeout_ms=1000, archive=archive_ending_at(10))
    correcting.begin(role, outcome, is_archived=True)
    await asked(links, 3, 60)
    await turns()
    assert role.begun is None
    assert "ends at offset 10 in this broker's bucket, and its leader's disk begins at 60" in caplog.text
    assert "Compare stratalog.bucket.url here and at broker 7" in caplog.text


async def test_epochs_of_another_cluster_that_went_back_to_a_cut_are_none_of_the_logs(outcome):
    """They begin below the leader's disk. Their leader knows none of them, and would refuse the copy for ever."""
    links, role = Links(), Role()
    archive = archive_ending_at(80, owner=1, leader_epochs=((4, 0), (70_000, 30)), entries=PackedEntries())
    Correcting(links, 7, local_id=2, timeout_ms=1000, archive=archive).begin(role, outcome, is_archived=True)
    await asked(links, 3, 60)
    await turns()
    assert role.begun == (60, (EpochEntry(4, 0),), None, 3)


@pytest.mark.parametrize("archive", [None, archive_ending_at(50)], ids=["none", "too short"])
async def test_an_archive_that_does_not_reach_the_leaders_disk_is_no_beginning(outcome, archive, caplog):
    """Records between the two would be missing: the log stays as it is."""
    links, role = Links(), Role()
    Correcting(links, 7, local_id=2, timeout_ms=1000, archive=archive).begin(role, outcome, is_archived=True)
    await asked(links, *((3,) if archive is None else (3, 60)))
    await turns()
    assert (role.begun, role.moved, outcome.told) == (None, None, [("refused", 0)])
    assert "no place to go on" in caplog.text


async def test_a_mistake_in_one_partition_is_logged_and_holds_up_no_other(outcome, caplog):
    """Requests wait for every partition of an answer."""
    links, role = Links(), Role()
    role.move_into = None
    Correcting(links, 7, local_id=2, timeout_ms=1000).begin(role, outcome, is_archived=False)
    await asked(links, 30, 90)
    assert outcome.told == [("refused", 0)]
    assert "TypeError" in caplog.text


def bucket_of(ends, *, incarnation=0):
    """A bucket in memory with an object for each of these ends, and the way to it of a broker of incarnation 0."""
    store, begins = MemoryStore(), [0, *ends[:-1]]
    segments = [
        build_batch([Record(offset, 1000, None, b"v") for offset in range(begin, end)], leader_epoch=4)
        for begin, end in zip(begins, ends, strict=True)
    ]
    claimant = Claimant(incarnation, 4, bytes(15) + b"c")
    archive_log(store, PartitionId("t", TOPIC_ID, 0), segments, now_ms=1, claimant=claimant)
    worker = Worker(store)

    def submit(command, answered):
        asyncio.get_running_loop().call_soon(answered, worker.execute(command))

    return store, ArchiveAccess(submit, lambda: 0)


async def trimmed(archive, *, local_start=0):
    """The offset below which a follower evicts whose leader's disk begins at 60; None if it evicts nothing."""
    links, role = Links(), Role()
    role.local_start = local_start
    Correcting(links, 7, local_id=2, timeout_ms=1000, archive=archive).trim(role)
    assert await asked(links, 60, 0) == [-4, -2]
    await turns(50)
    return role.evicted


async def test_local_records_go_as_far_as_the_leaders():
    """The archive has them."""
    assert await trimmed(bucket_of([30, 60, 90])[1]) == 60
    assert await trimmed(bucket_of([30, 60, 90])[1], local_start=40) == 60


async def test_a_leader_that_does_not_tell_leaves_local_records():
    """It may lead no longer."""
    links, role = Links(), Role()
    Correcting(links, 7, local_id=2, timeout_ms=1000, archive=bucket_of([90])[1]).trim(role)
    await asked(links, -1, code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert role.evicted is None


async def test_local_records_stay_that_the_archive_has_no_more():
    """The bucket was emptied, went back in time or lost an object since the leader has evicted: these are the last copies."""
    store, archive = bucket_of([30, 60, 90])
    store.delete_many([next(info.key for info in store.list("") if f"{30:020}-{60:020}" in info.key)])
    assert await trimmed(archive) is None
    assert await trimmed(bucket_of([30])[1]) == 30
    emptied, archive = bucket_of([30, 60, 90])
    emptied.delete_many([info.key for info in emptied.list("")])
    assert await trimmed(archive) is None
    assert await trimmed(None) is None


async def test_a_copy_that_keeps_local_records_says_so_once(caplog):
    """The disk would fill without a word. A bucket that is away is no reason."""
    links, role = Links(), Role()
    role.local_start = 30
    correcting = Correcting(links, 7, local_id=2, timeout_ms=1000, archive=bucket_of([30])[1])
    for _ in range(2):
        correcting.trim(role)
        await asked(links, 60, 0)
        await turns(50)
    (told_,) = [one.getMessage() for one in caplog.records]
    assert told_ == (
        "t-0: local segments from offset 30 on stay here, although its leader has let them go: "
        "its archive lacks the records from offset 30 on"
    )
    caplog.clear()
    assert await trimmed(None) is None
    assert "this broker has no archive" in caplog.text
    caplog.clear()
    away = commands.FailedReport("away", retriable=True)
    assert await trimmed(ArchiveAccess(lambda _, answered: answered(away), lambda: 0)) is None
    assert not caplog.records


async def test_a_segment_that_the_archive_has_in_part_is_logged_once(caplog):
    """Its first records are found anew in each round: segments of copies do not end where objects do."""
    links, role, (store, archive) = Links(), Role(), bucket_of([30])
    correcting = Correcting(links, 7, local_id=2, timeout_ms=1000, archive=archive)

    async def trim():
        caplog.clear()
        correcting.trim(role)
        await asked(links, 60, 0)
        await turns(50)
        return len(caplog.records)

    assert [await trim() for _ in range(2)] == [1, 0]
    store.delete_many([info.key for info in store.list("")])
    assert [await trim() for _ in range(2)] == [1, 0]


async def test_a_bucket_that_does_not_answer_is_asked_once():
    """Rounds go on meanwhile, for hours: each of them sent a command for each partition."""
    sent = []
    archive = ArchiveAccess(lambda command, answered: sent.append((command, answered)), lambda: 0)
    links, roles = Links(), [Role(0), Role(1)]
    correcting = Correcting(links, 7, local_id=2, timeout_ms=1000, archive=archive)
    for role in roles:
        correcting.trim(role)
        await asked(links, 60, 0)
    count = len(links.asked)
    for role in roles:
        correcting.trim(role)
    await turns(20)
    assert (len(sent), len(links.asked)) == (1, count)
    sent[0][1](commands.VerifiedUpTo(60))
    await turns(20)
    assert (len(sent), roles[0].evicted) == (2, 60)
    correcting.trim(roles[0])
    await turns(20)
    assert len(links.asked) == count + 1


async def test_local_records_stay_when_another_cluster_owns_the_archive():
    """It may remove what it likes."""
    assert await trimmed(bucket_of([30, 60, 90], incarnation=1)[1]) is None


async def test_records_that_the_leader_has_deleted_are_not_taken_for_archived(outcome):
    """Its disk begins with its log. The follower that begins before may lead next, and the archive lacks them."""
    links, role = Links(), Role()
    Correcting(links, 7, local_id=2, timeout_ms=1000, archive=bucket_of([90])[1]).trim(role)
    assert await asked(links, 60, 60) == [-4, -2]
    assert role.evicted is None


async def test_a_broker_that_stops_corrects_nothing_more(outcome):
    """The answer comes late."""
    links, role = Links(), Role()
    correcting = Correcting(links, 7, local_id=2, timeout_ms=1000)
    correcting.begin(role, outcome, is_archived=False)
    await turns()
    correcting.close()
    await turns()
    assert outcome.told == []
