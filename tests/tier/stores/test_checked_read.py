"""Answers damaged on their way: asked again, so that neither readers nor decisions hear of them; damage that stays is reported."""

from __future__ import annotations

import random

import pytest

from stratalog.tier.documents.keys import TOPICS_PREFIX
from stratalog.tier.manifests import pages as manifest_pages
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.messages.commands import (
    ChunkFill,
    Claim,
    CorruptReport,
    FailedReport,
    FillChunks,
    FindTimestamp,
    MergeObjects,
    ReadAborted,
    ReadBack,
    ReadBoundedView,
    ReadCatalogue,
    ReadFooter,
    ReadManifest,
    ReadRestartState,
    SetLogStart,
    WriteProjection,
)
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.objects.segment_reader import read_object_footer
from stratalog.tier.stores.checked_read import READS_MAX, get_checked, get_json, read_checked
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.store import ChecksumMismatch
from stratalog.tier.stores.wrappers import StoreWrapper
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.work import Worker
from stratalog.wire.errors import Corrupt

US = Claimant(0, 5, bytes([5] * 16), 4)


class DamagesFirst(StoreWrapper):
    """The first ``times`` answers to each different GET are damaged: a bit flipped, or the second half missing."""

    def __init__(self, inner, times, *, seed=0):
        super().__init__(inner)
        self.times = times
        self.asked = {}
        self.damaged = 0
        self._dice = random.Random(seed)

    def get(self, key):
        data, version = self.inner.get(key)
        return self._damage(("get", key), data), version

    def get_range(self, key, position, length):
        return self._damage(("range", key, position, length), self.inner.get_range(key, position, length), cut=False)

    def get_suffix(self, key, length):
        data, total_bytes = self.inner.get_suffix(key, length)
        return self._damage(("suffix", key, length), data, cut=False), total_bytes

    def _damage(self, request, data, *, cut=True):
        asked = self.asked[request] = self.asked.get(request, 0) + 1
        if asked > self.times or not data:
            return data
        self.damaged += 1
        if cut and self._dice.random() < 0.5:
            return data[: len(data) // 2]
        bit = self._dice.randrange(8 * len(data))
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << (bit % 8)
        return bytes(damaged)


@pytest.fixture
def archive(memory_store, log_bytes, monkeypatch):
    """Twelve objects of ten records each, the older ones in pages, with aborted transactions and a topic document."""
    monkeypatch.setattr(manifest_pages, "INLINE_MAX", 6)
    monkeypatch.setattr(manifest_pages, "INLINE_KEPT", 3)
    monkeypatch.setattr(manifest_pages, "FANOUT", 3)
    aborted = [AbortedTransaction(1, 5, 25, 25)]
    for n in range(12):
        archive_log(
            memory_store, log_bytes.partition, [log_bytes.segment(10 * n, 1)], now_ms=1, claimant=US, aborted=aborted
        )
    return memory_store


def commands(store, log_bytes, directory):
    """One of each kind of command that reads what can be checked."""
    partition = log_bytes.partition
    manifest = read_manifest(store, partition).manifest
    assert manifest.pages
    first = next(iter_entries(store, manifest))
    chunk = read_object_footer(store, first.key).chunks[0]
    return [
        ReadManifest(partition, "", 0),
        ReadFooter(partition, first.key),
        ReadAborted(partition, first.key),
        ReadRestartState(partition, first.key),
        FindTimestamp(partition, first.key, 0, 0, 10),
        FillChunks(partition, first.key, (ChunkFill(chunk, f"{directory}/chunk"),)),
        ReadBoundedView(partition, 25),
        ReadBack(partition, 0, 120, 0, US),
        ReadCatalogue(TOPICS_PREFIX),
        WriteProjection("topics/t/topic.json", {"format": "f", "version": 1}),
        WriteProjection("topics/t/topic.json", {"format": "f", "version": 1, "more": "x" * 100}),
        SetLogStart(partition, US, 15, 30, "DeleteRecords"),
        MergeObjects(partition, US, bytes([9] * 16), 2, 1 << 20, 40, 50),
        Claim(partition, Claimant(0, 6, bytes([6] * 16), 4), 60, 120),
    ]


@pytest.mark.parametrize("seed", range(8))
def test_every_command_reads_again_what_came_damaged(archive, log_bytes, tmp_path, seed):
    """All but the last answer that is asked for are damaged: each report is that of a sound store."""
    before = {info.key: archive.get(info.key)[0] for info in archive.list("")}
    sound_store = MemoryStore("memory:sound")
    for key, data in before.items():
        sound_store.put(key, data)
    for number, command in enumerate(commands(archive, log_bytes, tmp_path)):
        sound = Worker(sound_store).execute(command)
        assert not isinstance(sound, CorruptReport | FailedReport), sound
        for path in tmp_path.iterdir():
            path.unlink()
        spoiling = DamagesFirst(archive, READS_MAX - 1, seed=100 * seed + number)
        report = Worker(spoiling).execute(command)
        assert type(report) is type(sound), f"{command} was answered {report}"
        assert spoiling.damaged or not spoiling.asked


def test_lasting_damage_is_reported(archive, log_bytes):
    """After a bounded number of reads."""
    spoiling = DamagesFirst(archive, 1000)
    assert isinstance(Worker(spoiling).execute(ReadManifest(log_bytes.partition, "", 0)), CorruptReport)
    assert list(spoiling.asked.values()) == [READS_MAX]


def test_a_store_that_compares_checksums_is_not_asked_again():
    """It has read several times itself."""
    calls = []

    def read():
        calls.append(1)
        raise ChecksumMismatch("get", "key", "s3://b", "other bytes")

    with pytest.raises(ChecksumMismatch):
        read_checked(read)
    assert calls == [1]


def test_documents_are_parsed_or_corrupt(memory_store):
    """The version is that of the bytes that were parsed."""
    version = memory_store.put("a.json", b'{"a": 1}')
    assert get_json(memory_store, "a.json") == ({"a": 1}, version)
    assert get_checked(memory_store, "a.json", len) == (8, version)
    memory_store.put("a.json", b'{"a": 1')
    with pytest.raises(Corrupt, match=r"a\.json is no JSON"):
        get_json(memory_store, "a.json")
