"""Damaged bytes, in the bucket, in the cache and on the local disk: found, reported, never served, never archived."""

import logging
from pathlib import Path

import pytest

from stratalog.broker.archive.upload_request import upload_request
from stratalog.client.records import fetch
from stratalog.tier.objects.segment_reader import read_object_footer
from stratalog.wire.errors import KafkaError
from stratalog.wire.topic import TopicPartition

NAME = TopicPartition("t", 0)


@pytest.fixture
def archived(tiered):
    """A broker with an archived topic; each range is one object of one chunk."""
    tiered.topic("t")
    tiered.write("t", 42)
    tiered.archived("t")
    return tiered


def refused(tiered, offset):
    """Fetch until the answer is an error; its code."""
    client = tiered.node.client()
    for _ in range(100):
        try:
            (found,) = fetch(client, {NAME: offset}, max_wait_ms=100)
        except KafkaError as error:
            return error.code.name
        assert not found.data, "damaged bytes were served"
    raise AssertionError("no error came")


def flip(data, position):
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


def shorten(data, _):
    return data[: len(data) // 2]


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda data, footer: flip(data, 200), "CORRUPT_MESSAGE"),
        (shorten, "CORRUPT_MESSAGE"),
        (lambda data, footer: flip(data, footer.blobs["chunks"].position + 3), "CORRUPT_MESSAGE"),
        (lambda data, footer: flip(data, len(data) - 3), "CORRUPT_MESSAGE"),
        (None, "KAFKA_STORAGE_ERROR"),
    ],
    ids=["chunk", "truncated", "chunk table", "trailer", "missing"],
)
def test_a_damaged_object_is_reported_and_not_served(archived, caplog, damage, code):
    """The log names topic, partition and key; the reader gets an error; every other range is still served."""
    entry = archived.manifest("t").entries[3]
    data = archived.memory.get(entry.key)[0]
    if damage is None:
        archived.memory.delete_many([entry.key])
    else:
        archived.replace(entry.key, damage(data, read_object_footer(archived.memory, entry.key)))
    with caplog.at_level(logging.ERROR):
        assert refused(archived, entry.base + 1) == code
    told = [one.getMessage() for one in caplog.records if entry.key in one.getMessage()]
    assert told
    assert any("t-0" in one or "t/0" in one or "partition 0" in one for one in told), told
    before = archived.node.read("t", 0, entry.end)
    assert [one.offset for one in before] == list(range(entry.end, 210))
    (found,) = fetch(archived.node.client(), {NAME: 0}, max_wait_ms=2000, partition_max_bytes=1)
    assert found.data
    archived.replace(entry.key, data)
    archived.node.run(archived.node.partition("t").remote._errors._errors.clear)
    archived.check_reads("t")


def test_an_error_of_a_chunk_names_the_offset(archived, caplog):
    """Where exactly the chunk begins that failed."""
    entry = archived.manifest("t").entries[2]
    archived.replace(entry.key, flip(archived.memory.get(entry.key)[0], 300))
    with caplog.at_level(logging.ERROR):
        refused(archived, entry.base + 4)
    assert any(f"offset {entry.base}" in one.getMessage() for one in caplog.records)


def test_a_damaged_cache_file_is_fetched_again(archived, caplog):
    """A chunk that has lain in the cache is checked before it is served once more."""
    archived.check_reads("t")
    chunks = archived.node.node.tiering.chunks
    for path in Path(chunks.directory).iterdir():
        path.write_bytes(flip(path.read_bytes(), 150))
    now_ms = chunks._now_ms
    archived.node.run(lambda: setattr(chunks, "_now_ms", lambda: now_ms() + 31_000))
    before = archived.gets
    with caplog.at_level(logging.ERROR):
        archived.check_reads("t")
    assert archived.gets > before
    told = [one.getMessage() for one in caplog.records if "fails its check" in one.getMessage()]
    assert told
    assert all("topics/t-" in one and "offsets from" in one for one in told)


def test_a_sound_cache_file_is_checked_without_a_get(archived):
    """Its CRC is compared; the bucket is not asked."""
    archived.check_reads("t")
    chunks = archived.node.node.tiering.chunks
    now_ms = chunks._now_ms
    archived.node.run(lambda: setattr(chunks, "_now_ms", lambda: now_ms() + 31_000))
    before = archived.gets
    archived.check_reads("t")
    assert archived.gets == before


@pytest.mark.parametrize("whole", [False, True])
def test_cache_files_that_are_gone_are_fetched_again(archived, whole):
    """One file, or the whole directory."""
    archived.check_reads("t")
    chunks = archived.node.node.tiering.chunks
    paths = list(Path(chunks.directory).iterdir())
    assert paths
    for path in paths:
        path.unlink()
    if whole:
        Path(chunks.directory).rmdir()
    archived.node.run(chunks._open.clear)
    archived.check_reads("t")


def test_a_corrupt_local_segment_is_never_archived(tiered, caplog, monkeypatch):
    """It is quarantined: reported with partition and offset, kept on the disk, and nothing behind it is archived."""
    tiered.topic("t")
    tiered.write("t", 9)
    tiered.archived("t")
    archive = tiered.node.run(lambda: tiered.node.node.tiering._archives[tiered.node.partition("t")])

    def damaged(*arguments, **named):
        found = upload_request(*arguments, **named)
        path = Path(found.source[0].path)
        path.write_bytes(flip(path.read_bytes(), 100))
        return found

    monkeypatch.setattr("stratalog.broker.archive.upload_request.upload_request", damaged)
    with caplog.at_level(logging.ERROR):
        tiered.write("t", 20)
        tiered.node.wait_until(lambda: archive.state == "quarantined")
        reached = tiered.offsets("t")[2]
        # Several segments are on their way at a time, and the report of a later one may come first.
        tiered.node.wait_until(lambda: any(f"t-0: the batch of offset {reached} " in one for one in caplog.messages))
    tiered.write("t", 20)
    assert tiered.offsets("t")[1:3] == (reached, reached)
    assert tiered.check_bucket("t").remote_end == reached
