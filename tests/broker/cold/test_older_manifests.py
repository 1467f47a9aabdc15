"""A bucket that was emptied, unmounted or rolled back: its manifest is older than the one that is known."""

import asyncio
from collections import Counter

import pytest
from msgspec.structs import replace

from stratalog.broker.cold.remembered_errors import ERROR_MS
from stratalog.tier.manifests.json import to_bytes
from stratalog.tier.manifests.manifest import REPAIR
from stratalog.tier.manifests.parts import CommitNote, Totals
from stratalog.tier.manifests.view import ManifestView
from stratalog.tier.messages import commands
from stratalog.wire.errors import ErrorCode, KafkaError
from tests.broker.archive.archive_rig import PARTITION, Rig


@pytest.fixture
def rig(tmp_path):
    """An archive whose manifest and entries are known."""
    rig = Rig(tmp_path)
    rig.write(9)
    rig.settle()
    rig.archive.remote.refresh()
    rig.settle()
    assert rig.archive.remote.entries is not None
    return rig


def emptied(rig):
    """Take everything out of the bucket; returns what was there."""
    held = {info.key: rig.store.get(info.key)[0] for info in rig.store.list("")}
    rig.store.delete_many(list(held))
    return held


def put_back(rig, held):
    for key, data in held.items():
        rig.store.put(key, data)


def looked_up(rig, asked, from_offset=0):
    """The outcome of a look-up by time; counts the commands of this in ``asked``."""
    remote = rig.archive.remote

    async def main():
        loop = asyncio.get_running_loop()

        def submit(command, answered):
            asked[type(command).__name__] += 1
            if asked.total() < 1000:  # enough
                loop.call_soon(answered, rig.worker.execute(command))

        remote.find_timestamp.__self__._submit = submit
        try:
            return await asyncio.wait_for(remote.find_timestamp(0, from_offset, from_offset + 20), 5)
        except KafkaError as error:
            return error

    return asyncio.run(main())


def test_a_look_up_by_time_ends_with_an_error(rig):
    """The manifest is asked for once, and not for the readers of the next seconds; then it may be there again."""
    held, asked = emptied(rig), Counter()
    for _ in range(2):
        refused = looked_up(rig, asked)
        assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert "/manifest.json is not in the bucket, but number" in str(refused)
        assert asked == {"FindTimestamp": 1, "ReadManifest": 1}
    put_back(rig, held)
    rig.now_ms += ERROR_MS
    assert looked_up(rig, asked).offset == 0
    assert asked["ReadManifest"] == 2


def test_a_reader_hears_of_it_and_asks_no_more(rig):
    """Each answer wakes the fetch that waits, which tries again at once."""
    held, remote = emptied(rig), rig.archive.remote
    remote.unload()
    outcomes = []

    def look():
        try:
            outcomes.append(remote.read("reader", 0, 1000))
        except KafkaError as error:
            outcomes.append(error)

    remote._wake = look
    look()
    assert len(rig.queue) == 1
    rig.step()
    assert rig.queue == []
    assert [type(one) for one in outcomes] == [type(None), KafkaError]
    put_back(rig, held)
    rig.now_ms += ERROR_MS
    remote._wake = lambda: None
    look()
    rig.step()
    assert remote.entries is not None


def test_a_manifest_of_some_changes_ago_is_not_believed(rig):
    """The bucket was rolled back: what is known stays, for what it says may be gone."""
    remote = rig.archive.remote
    old = {info.key: rig.store.get(info.key)[0] for info in rig.store.list("")}
    rig.write(9)
    rig.settle()
    end, seq = remote.end_offset, remote.facts.seq
    put_back(rig, old)
    remote.refresh()
    rig.step()
    with pytest.raises(KafkaError, match="went back in time"):
        remote.raise_remembered()
    assert (remote.end_offset, remote.facts.seq) == (end, seq)


def test_an_answer_that_a_commit_has_overtaken_is_no_error(rig):
    """It was right when it was given."""
    remote = rig.archive.remote
    remote.refresh()
    (command, answered), rig.queue[:] = rig.queue[0], rig.queue[1:]
    report = rig.worker.execute(replace(command, known_version=""))
    rig.write(9)
    rig.settle()
    end = remote.end_offset
    answered(report)
    remote.raise_remembered()
    assert remote.end_offset == end


def test_a_manifest_that_was_lost_and_repaired_is_believed(rig):
    """Its changes are numbered anew, so that its number is lower."""
    remote = rig.archive.remote
    end, seq = remote.end_offset, remote.facts.seq
    assert seq > 1
    note = CommitNote(1, REPAIR, 1, end, 9)
    rig.store.put(PARTITION.manifest_key, to_bytes(replace(rig.manifest, seq=1, commits=(note,))))
    remote.refresh()
    while rig.queue:
        rig.step()
    remote.raise_remembered()
    assert (remote.end_offset, remote.facts.seq) == (end, 1)
    asked = Counter()
    assert looked_up(rig, asked).offset == 0
    assert asked["ReadManifest"] == 1


def test_a_manifest_that_ends_earlier_without_a_reason_is_not_believed(rig):
    """Also while its entries are known, and whatever number it has."""
    remote = rig.archive.remote
    end, seq = remote.end_offset, remote.facts.seq
    for number in (seq, seq + 1):
        shorter = replace(rig.manifest, seq=number, entries=(), remote_end=0, totals=Totals())
        assert not remote.apply(ManifestView.of(shorter, "v"))
        with pytest.raises(KafkaError, match="ends at offset 0"):
            remote.raise_remembered()
    assert (remote.end_offset, remote.facts.seq) == (end, seq)


def committed_after_a_merge(rig):
    """Commit to an archive that was merged since it was read; its entries are being read again. Returns where it ended before."""
    remote, before = rig.archive.remote, rig.manifest
    rig.write(9)
    while not rig.queue or not isinstance(rig.queue[0][0], commands.Commit):
        rig.now_ms += 1000
        rig.archive.look()
        while rig.queue and not isinstance(rig.queue[0][0], commands.Commit):
            rig.step()
    held, rig.queue[:] = rig.queue[:], []
    remote.refresh()
    rig.step()
    merge = commands.MergeObjects(PARTITION, before.claimant, b"m" * 16, 2, 1 << 20, rig.now_ms, rig.now_ms + 1, "c")
    assert isinstance(rig.worker.execute(merge), commands.ObjectsMerged)
    rig.queue[:] = held
    rig.step()
    assert rig.manifest.remote_end > before.remote_end
    return before.remote_end


def test_a_reader_waits_for_entries_that_were_rewritten(rig):
    """A commit tells of a merge since: its own entries come with the others, and what it archived may have left the disk."""
    remote, end = rig.archive.remote, committed_after_a_merge(rig)
    assert remote.read("reader", end, 1000) is None
    while rig.queue:
        rig.step()
    assert remote.end_offset == rig.manifest.remote_end


def test_a_look_up_by_time_waits_for_entries_that_were_rewritten(rig):
    """It would pass over what was archived last, and answer with a later record."""
    end, asked = committed_after_a_merge(rig), Counter()
    assert rig.archive.remote.may_hold(2000, rig.manifest.remote_end)
    assert looked_up(rig, asked, end).offset == end
    assert asked["ReadManifest"] == 1
    assert not rig.archive.remote.may_hold(2000, rig.manifest.remote_end)


def test_a_manifest_that_a_commit_overtook_lacks_what_this_archived(rig):
    """It was read before the commit, and answered behind it. A reader got KAFKA_STORAGE_ERROR for the rest."""
    remote, asked = rig.archive.remote, Counter()
    committed_after_a_merge(rig)
    (read,) = [one for one in rig.queue if isinstance(one[0], commands.ReadManifest)]
    rig.queue.remove(read)
    report, end = rig.worker.execute(read[0]), rig.manifest.remote_end
    rig.write(9)
    while rig.manifest.remote_end == end:
        rig.now_ms += 1000
        rig.archive.look()
        while rig.queue and rig.manifest.remote_end == end:
            rig.step()
    read[1](report)
    assert remote.read("reader", end, 1000) is None
    assert looked_up(rig, asked, end).offset == end
    assert not remote.is_stale
    assert remote.end_offset == rig.manifest.remote_end
