"""Damage of frozen segments, whatever it is: archived records are read, in order and once, and the rest is reported.

A consumer that checks CRCs reads the whole log through `UnifiedLog`. It asks again for what it could not use. Where an
offset is in no place it goes on behind the range that is named.
"""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from stratalog.broker.http.missing_problems import missing_problems
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.runtime.slices import to_the_end
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.recovery.missing import MissingRange
from stratalog.hot.segments.segment_cache import SegmentCache
from stratalog.hot.storage.filesystem import FileStatus, RealFilesystem
from stratalog.wire.batch import Record, build_batch, check_batch, iter_headers, iter_records
from stratalog.wire.errors import Corrupt
from stratalog.wire.parts import FileSlice
from stratalog.wire.topic import TopicPartition

NAME = TopicPartition("orders", 0)
NOW_MS = 1_700_000_000_000
SEGMENTS, BATCHES, RECORDS = 5, 12, 3
"""Frozen segments, batches in each, records in each batch."""
EACH = BATCHES * RECORDS
DAMAGED = EACH
"""Base offset of the second segment, which is damaged."""
END = SEGMENTS * EACH + RECORDS
ARCHIVED = {"below": 4 * EACH, "across": EACH + 5 * RECORDS, "above": EACH}
CONFIGS = {
    "tiered": LogConfig(index_interval_bytes=400, remote_storage_enable=True),
    "compacted": LogConfig(index_interval_bytes=400, remote_storage_enable=True, cleanup_policy=frozenset({"compact"})),
    "plain": LogConfig(index_interval_bytes=400),
}


class AtRest(RealFilesystem):
    """A copy whose files look as the original's, where they were not changed: a summary of that is borne out."""

    def __init__(self, copy: Path, original: Path) -> None:
        self.copy, self.original = str(copy), str(original)

    def status(self, path: str) -> FileStatus:
        now = super().status(path)
        try:
            then = super().status(self.original + path.removeprefix(self.copy))
        except FileNotFoundError:
            return now
        return then if then[1:3] == now[1:3] else now


def open_log(directory, config, *, clean, summary=None, recovery_point=END, original=None) -> Log:
    return Log.open(
        str(directory), NAME, bytes(16), config, files=AtRest(directory, original or directory), now_ms=NOW_MS, clean=clean,
        cache=SegmentCache(), summary=summary, recovery_point=recovery_point,
    )  # fmt: skip


def stop(log):
    ticket = log.begin_close()
    if ticket is not None:
        ticket.run()
        log.finish_sync(ticket)
    summary = log.summary()
    log.abandon()
    return summary


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A log of each kind, stopped in order, and what is noted of it."""
    found = {}
    for kind, config in CONFIGS.items():
        directory = tmp_path_factory.mktemp(kind) / "orders-0"
        log = open_log(directory, config, clean=True, recovery_point=0)
        for number in range(SEGMENTS * BATCHES + 1):
            if number and number % BATCHES == 0:
                log.roll()
            at = NOW_MS + number * 10
            batch = build_batch([Record(n, at + n, b"%d-%d" % (number, n), b"v" * 50) for n in range(RECORDS)])
            log.append_as_leader(memoryview(batch), leader_epoch=1, now_ms=NOW_MS)
        log.write_queued()
        log.sync()
        found[kind] = directory, stop(log)
    return found


class Bucket:
    """An archive that holds the log as it was up to ``end_offset``, and gives a few batches at a time."""

    start_offset = 0

    def __init__(self, directory: Path, end_offset: int) -> None:
        self.end_offset = end_offset
        files = RealFilesystem()
        self._batches = []
        for path in sorted(directory.glob("*.log")):
            file = files.open_read(str(path))
            data = path.read_bytes()
            self._batches += [(header.base_offset, file, at, header.size_bytes) for at, header in iter_headers(data)]

    def read(self, reader, offset, max_bytes, *, min_one_batch):
        parts = [
            FileSlice(file, at, size_bytes)
            for base, file, at, size_bytes in self._batches
            if offset < base + RECORDS and base < self.end_offset
        ][:4]
        next_offset = min((offset // RECORDS + 4) * RECORDS, self.end_offset)
        size_bytes = sum(part.length for part in parts)
        return SimpleNamespace(parts=parts, size_bytes=size_bytes, next_offset=next_offset, aborted=())

    def crossed(self, reader, offset):
        """Reads no chunk ahead."""


def served(log, bucket) -> UnifiedLog:
    partition = SimpleNamespace(log=log, others_have_it=False, topic_partition=NAME, topic_id=bytes(16))
    return UnifiedLog(partition, SimpleNamespace(), bucket)


def consume(unified) -> tuple[list[int], list[MissingRange]]:
    """The offsets that were read, and the ranges that are in no place."""
    found, missing, offset, failures = [], [], 0, 0
    while offset < END:
        try:
            read = unified.read("me", offset, limit=END, max_bytes=1500, committed=False, min_one_batch=True)
        except MissingRange as error:
            assert error.base_offset <= offset < error.end_offset
            missing.append(error)
            offset = error.end_offset
            continue
        data = b"".join(part.file.pread(part.length, part.position) for part in read.parts)
        assert len(data) == read.size_bytes > 0
        position = offset
        try:
            for at, header in iter_headers(data):
                check_batch(data, at)
                records = list(iter_records(data[at : at + header.size_bytes]))
                found += [one.offset for one in records if one.offset >= offset]
                offset = header.next_offset
        except Corrupt:
            failures += 1
            assert failures < 20, f"no reader gets beyond offset {offset}"
            continue
        assert offset > position, "nothing was read"
    return found, missing


def second(directory, suffix=".log") -> Path:
    return directory / f"{DAMAGED:020d}{suffix}"


def borders(data) -> list[int]:
    return [at for at, _ in iter_headers(data)]


def rewrite(directory, change) -> None:
    path = second(directory)
    path.write_bytes(change(bytearray(path.read_bytes())))


def flipped(data, at):
    data[at] ^= 0x40
    return data


def zeroed(data, first, last):
    data[first:last] = bytes(last - first)
    return data


DAMAGE = {
    "cut at a batch border": lambda one: rewrite(one, lambda data: data[: borders(data)[5]]),
    "cut at the last border": lambda one: rewrite(one, lambda data: data[: borders(data)[-1]]),
    "cut inside a batch": lambda one: rewrite(one, lambda data: data[: borders(data)[5] + 77]),
    "cut to nothing": lambda one: rewrite(one, lambda data: b""),
    "more bytes": lambda one: rewrite(one, lambda data: data + data[:100]),
    "length": lambda one: rewrite(one, lambda data: flipped(data, borders(data)[5] + 10)),
    "magic": lambda one: rewrite(one, lambda data: flipped(data, borders(data)[4] + 16)),
    "checksum": lambda one: rewrite(one, lambda data: flipped(data, borders(data)[6] + 18)),
    "last offset": lambda one: rewrite(one, lambda data: flipped(data, borders(data)[5] + 26)),
    "last header": lambda one: rewrite(one, lambda data: flipped(data, borders(data)[-1] + 9)),
    "a record": lambda one: rewrite(one, lambda data: flipped(data, borders(data)[7] + 90)),
    "zeroes over headers": lambda one: rewrite(one, lambda data: zeroed(data, borders(data)[3] + 9, borders(data)[6] + 30)),
    "zeroes in a batch": lambda one: rewrite(one, lambda data: zeroed(data, borders(data)[3] + 70, borders(data)[3] + 99)),
    "no log": lambda one: second(one).unlink(),
    "no log, no index": lambda one: [path.unlink() for path in one.glob(f"{DAMAGED:020d}.*") if path.suffix != ".snapshot"],
    "no index": lambda one: second(one, ".index").unlink(),
    "no time index": lambda one: second(one, ".timeindex").unlink(),
    "an index of zeroes": lambda one: second(one, ".index").write_bytes(bytes(len(second(one, ".index").read_bytes()))),
}  # fmt: skip
SILENT = {
    "length",
    "magic",
    "checksum",
    "last offset",
    "a record",
    "zeroes over headers",
    "zeroes in a batch",
}
"""In the middle of a file: a reader notices, a start does not."""
NEVER_TOLD = "no log, no index"
"""In a compacted log, after a kill: it looks like what the cleaner has put together."""
UNHARMED = {"no index", "no time index", "an index of zeroes", "more bytes"}


def damaged(images, tmp_path, kind, harm) -> tuple[Path, Path, object]:
    """A damaged copy, the original, and what was noted of it."""
    original, summary = images[kind]
    copy = tmp_path / "orders-0"
    shutil.copytree(original, copy)
    DAMAGE[harm](copy)
    return copy, original, summary


def cases():
    """Without an archive recovery decides about what it verifies (decision 0014)."""
    for harm in DAMAGE:
        for stopped in ("clean", "kill", "kill, nothing flushed"):
            yield from (("tiered", harm, where, stopped) for where in ARCHIVED)
            if harm != NEVER_TOLD or stopped == "clean":
                yield "compacted", harm, "across", stopped
            if stopped != "kill, nothing flushed":
                yield "plain", harm, "above", stopped


@pytest.mark.parametrize(("kind", "harm", "where", "stopped"), list(cases()))
def test_archived_records_are_read_in_order_and_once(images, tmp_path, kind, harm, where, stopped):
    """And of what it has not: all that is sound."""
    copy, original, summary = damaged(images, tmp_path, kind, harm)
    point = 0 if stopped == "kill, nothing flushed" else END
    log = open_log(
        copy, CONFIGS[kind], clean=stopped == "clean", summary=summary, recovery_point=point, original=original
    )
    bucket = None if kind == "plain" else Bucket(original, ARCHIVED[where])
    unified = served(log, bucket)
    found, missing = consume(unified)
    archived = 0 if bucket is None else bucket.end_offset
    assert found == sorted(set(found))
    lost = {offset for one in missing for offset in range(max(one.base_offset, archived), one.end_offset)}
    assert set(found) | lost == set(range(END))
    assert not set(found) & lost
    assert lost <= set(range(EACH, 2 * EACH))
    assert harm not in UNHARMED or not lost
    if harm in UNHARMED:
        return
    told = log.missing_ranges()
    assert len(told) >= 1
    assert all(NAME.topic in problem and str(DAMAGED) in problem for problem in to_the_end(missing_problems([unified])))
    if archived < 2 * EACH:
        assert lost


@pytest.mark.parametrize("harm", sorted(DAMAGE.keys() - SILENT - UNHARMED))
@pytest.mark.parametrize("stopped", ["clean", "kill"])
@pytest.mark.parametrize("kind", CONFIGS)
def test_vanished_ends_are_reported_at_the_start(images, tmp_path, kind, harm, stopped):
    """Before anybody has read anything."""
    if (kind, harm, stopped) == ("compacted", NEVER_TOLD, "kill"):
        return
    copy, original, summary = damaged(images, tmp_path, kind, harm)
    log = open_log(copy, CONFIGS[kind], clean=stopped == "clean", summary=summary, original=original)
    assert [one.end_offset for one in log.missing_ranges()] == [2 * EACH]


@pytest.mark.parametrize("harm", sorted(DAMAGE.keys() - UNHARMED))
@pytest.mark.parametrize("stopped", ["clean", "kill"])
def test_a_missing_range_outlives_starts_and_its_bytes_are_kept(images, tmp_path, harm, stopped):
    """Also if a reader found it: the next start moves the bytes to quarantine. Then nothing changes any more."""
    copy, original, summary = damaged(images, tmp_path, "tiered", harm)
    harmed = second(copy).read_bytes() if second(copy).exists() else b""
    log = open_log(copy, CONFIGS["tiered"], clean=True, summary=summary)
    consume(served(log, Bucket(original, END)))
    first = [(one.base_offset, one.end_offset) for one in log.missing_ranges()]
    assert first
    for _ in range(3):
        summary = stop(log) if stopped == "clean" else log.abandon()
        log = open_log(copy, CONFIGS["tiered"], clean=stopped == "clean", summary=summary)
        assert [(one.base_offset, one.end_offset) for one in log.missing_ranges()] == first
        assert consume(served(log, Bucket(original, END)))[0] == list(range(END))
    kept = b"".join(path.read_bytes() for path in sorted(tmp_path.glob("*-stray/*.from-*")))
    rest = second(copy).read_bytes()
    assert rest + kept == harmed
    assert len(list(tmp_path.glob("*-stray"))) <= 1


@pytest.mark.parametrize("bit", [0x40, 0x01])
def test_a_search_meets_a_changed_base_offset(images, tmp_path, bit):
    """No CRC covers it, and no header is read in passing: that is where what can be noticed ends."""
    original, summary = images["tiered"]
    copy = tmp_path / "orders-0"
    shutil.copytree(original, copy)

    def change(data):
        data[borders(data)[5] + 6] ^= bit
        return data

    rewrite(copy, change)
    log = open_log(copy, CONFIGS["tiered"], clean=True, summary=summary)
    unified = served(log, Bucket(original, END))
    offset = EACH + 5 * RECORDS
    read = unified.read("me", offset, limit=END, max_bytes=1500, committed=False, min_one_batch=True)
    assert read.remote
    assert [(one.base_offset, one.end_offset) for one in log.missing_ranges()] == [(offset, 2 * EACH)]


@pytest.mark.parametrize("harm", sorted(SILENT))
def test_a_client_that_dies_of_damage_gets_past_it_when_it_starts_again(images, tmp_path, harm):
    """Some end, or hang, at bytes that are no batch, and begin again before them."""
    copy, original, summary = damaged(images, tmp_path, "tiered", harm)
    unified = served(open_log(copy, CONFIGS["tiered"], clean=True, summary=summary), Bucket(original, END))
    for _ in range(3):
        offset = 0
        try:
            while offset < END:
                read = unified.read("me", offset, limit=END, max_bytes=100_000, committed=False, min_one_batch=True)
                data = b"".join(part.file.pread(part.length, part.position) for part in read.parts)
                for at, header in iter_headers(data):
                    check_batch(data, at)
                    assert header.base_offset == offset
                    offset = header.next_offset
        except Corrupt:
            continue
        return
    raise AssertionError(f"no client gets beyond offset {offset}")
