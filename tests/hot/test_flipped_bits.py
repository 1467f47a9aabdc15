"""Every single bit of a log directory, flipped while the broker is down.

A start may refuse with an error of ours. It never fails otherwise, and no record that was flushed vanishes in silence: it
is read as it was, or its bytes are refused by their CRC, or what was lost is reported and kept aside.
"""

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from stratalog.hot.cleaner_offsets import note_cleaner_offset
from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.log.log import Log
from stratalog.hot.storage.filesystem import FileStatus, RealFilesystem
from stratalog.wire.batch import CRC_START, check_batch, iter_headers
from stratalog.wire.errors import Corrupt, StratalogError
from stratalog.wire.topic import TopicPartition

SMALL = {"segment_bytes": 350, "index_interval_bytes": 200}
CONFIGS = {
    TopicPartition("plain", 0): LogConfig(**SMALL),
    TopicPartition("cleaned", 0): LogConfig(
        **SMALL, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0
    ),
    TopicPartition("once", 1): LogConfig(**SMALL),
    TopicPartition("tiered", 0): LogConfig(**SMALL, remote_storage_enable=True),
}
"""``cleaned`` is compacted, ``once`` was; of ``tiered`` the first segments have gone to the archive."""
IDS = {name: bytes([at + 1]) * 16 for at, name in enumerate(CONFIGS)}
EPOCH_MAX = 9


class Kept(NamedTuple):
    """A batch that was flushed."""

    base_offset: int
    covered: bytes
    """Its bytes under the CRC."""


class Image(NamedTuple):
    """A log directory as a stop left it, and what it holds."""

    path: Path
    batches: dict[TopicPartition, list[Kept]]
    ends: dict[TopicPartition, int]
    aborted: dict[TopicPartition, list]
    statuses: dict[str, FileStatus]


class AtRest(RealFilesystem):
    """Copies of files look as the files did: a bit that flips on a disk changes neither time nor inode."""

    def __init__(self, image: Image, root: Path) -> None:
        self.image = image
        self.root = str(root)

    def status(self, path: str) -> FileStatus:
        """As the original was, unless the copy was changed."""
        now = super().status(path)
        known = self.image.statuses.get(path.removeprefix(self.root))
        same = known is not None and known[1:3] == now[1:3]
        return known if same and known is not None else now


def batches_of(bench_type, log: Log) -> list[Kept]:
    found, offset = [], log.local_log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, max_bytes=400, max_offset=log.log_end_offset)
        data = bench_type.content(read)
        for position, header in iter_headers(data):
            if header.record_count:
                found.append(Kept(header.base_offset, data[position + CRC_START : position + header.size_bytes]))
        offset = read.next_offset
    return found


def write(bench, compactor_type, directory: LogDirectory, name: TopicPartition, cache) -> Log:
    """Transactions, epochs, segments; gaps, a local start and a moved log start where the name says so."""
    compacted = CONFIGS[TopicPartition("cleaned", 0)]
    config = compacted if name.topic == "once" else CONFIGS[name]
    log = directory.open_log(name, IDS[name], config, now_ms=1, cache=cache)
    bench.write_mixed(log, 9, epoch=0, seed=3)  # the cleaner takes its first batch, too
    bench.write_mixed(log, 9, epoch=4, seed=5)
    if name.topic in ("cleaned", "once"):
        log.roll()
        log.sync()
        compactor = compactor_type(directory.files)
        log.producer_state.on_high_watermark(log.log_end_offset)
        log.compaction.expect_gaps(log.active_base_offset, log.log_end_offset)
        assert [one for one in compactor.clean(log, now_ms=bench.now_ms + 10**9) if one.changed]
        note_cleaner_offset(directory, name, compactor.cleaned_offset)()
    if name.topic == "tiered":
        log.sync()
        log.delete_local_before(log.segments()[2].base_offset)
        log.advance_log_start(2)
    log.sync()
    directory.write_checkpoints({name: log})
    bench.write_mixed(log, 5, epoch=5, seed=8)
    log.update_config(CONFIGS[name])
    log.sync()
    return log


@pytest.fixture(scope="module", params=["killed", "stopped"])
def image(request, tmp_path_factory, bench_type, compactor_type) -> Image:
    from stratalog.hot.segments.segment_cache import SegmentCache
    from stratalog.hot.storage.checkpoint import MetaProperties, write_meta_properties

    path = tmp_path_factory.mktemp("image") / "logs"
    files = RealFilesystem()
    directory = LogDirectory.load(str(path), files)
    write_meta_properties(files, str(path), MetaProperties("cluster-id-of-22-bytes", 1, bytes(16)))
    logs, cache = {}, SegmentCache()

    class Terse(bench_type):
        def batch(self, count=1, *, value=b"v", **options):
            return super().batch(count, value=value, **options)

    for name in CONFIGS:
        bench = Terse(str(path))
        logs[name] = write(bench, compactor_type, directory, name, cache)
    batches = {name: batches_of(bench_type, log) for name, log in logs.items()}
    ends = {name: log.log_end_offset for name, log in logs.items()}
    aborted = {name: log.aborted_transactions(0, log.log_end_offset) for name, log in logs.items()}
    assert all(batches.values())
    assert any(aborted.values())
    if request.param == "stopped":
        directory.close(logs, broker_epoch=9)
    else:
        for log in logs.values():
            log.abandon()
    statuses = {"": files.status(str(path))} | {
        f"/{one.relative_to(path)}": files.status(str(one)) for one in path.rglob("*")
    }
    return Image(path, batches, ends, aborted, statuses)


def places(image: Image) -> Iterator[tuple[str, int]]:
    """Every bit, as file and number."""
    for path in sorted(image.path.rglob("*")):
        if path.is_file():
            for bit in range(path.stat().st_size * 8):
                yield str(path.relative_to(image.path)), bit


def flipped(image: Image, scratch: Path, name: str, bit: int) -> Path:
    """A copy of the directory with one bit flipped; without the other partitions if that is in one of them."""
    partition, in_partition, _ = name.rpartition("/")
    others = {str(one) for one in CONFIGS if in_partition and str(one) != partition}
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(image.path, scratch, ignore=lambda path, names: others & set(names))
    os.utime(scratch, ns=(0, image.statuses[""].modified_ns))
    path = scratch / name
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 0x80 >> bit % 8
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return scratch


def judge(image: Image, bench_type, scratch: Path, where: tuple[str, int]) -> str:
    """Start over one flipped bit; how it ended. Raises `AssertionError` for what must not be."""
    name, _ = where
    root = flipped(image, scratch, *where)
    files = AtRest(image, root)
    try:
        directory = LogDirectory.load(str(root), files)
    except Corrupt:
        assert name == "meta.properties"
        return "refused"
    outcome = "unharmed"
    for partition, config in CONFIGS.items():
        if "/" in name and not name.startswith(f"{partition}/"):
            continue
        log = directory.open_log(partition, IDS[partition], config, now_ms=1, leader_epoch_max=EPOCH_MAX)
        bases = [one.base_offset for one in log._segments]
        assert bases == sorted(set(bases)), (where, bases)
        told = log.recovery.damaged_offset is not None or log.recovery.tail_offset is not None
        if told:
            assert log.recovery.quarantine or log.recovery.resume_offset, (where, log.recovery)
        found = check(image, bench_type, partition, log, where, told=told)
        outcome = "told" if told else found if outcome == "unharmed" else outcome
        bench = bench_type(str(root))
        bench.append(log, 2, epoch=EPOCH_MAX)
        log.sync()
        end = log.log_end_offset
        log.abandon()
        again = Log.open(
            log.directory, partition, IDS[partition], config, files=files, now_ms=2, clean=False,
            recovery_point=end, known_gaps_below=log.gaps.below,
        )  # fmt: skip
        assert again.log_end_offset == end, (where, again.recovery)
        if told:
            assert again.recovery.damaged_offset is None, (where, again.recovery)
        again.abandon()
    return outcome


def take(data: bytes, seen: dict[int, bytes]) -> bool:
    """Note the batches of an answer as a client does; whether it would refuse any."""
    refused = False
    try:
        for position, header in iter_headers(data):
            try:
                check_batch(data, position)
            except Corrupt:
                refused = True
            else:
                if header.record_count:
                    seen[header.base_offset] = data[position + CRC_START : position + header.size_bytes]
    except Corrupt:
        return True
    return refused


def check(image: Image, bench_type, partition: TopicPartition, log: Log, where, *, told: bool) -> str:
    """Read all of a log; whatever is not as it was must have been told, or be refused by a CRC."""
    name, _ = where
    wanted = {one.base_offset: one.covered for one in image.batches[partition]}
    assert told or log.log_end_offset == image.ends[partition], (where, log.log_end_offset)
    start = log.local_log_start_offset
    assert told or start <= min(wanted), (where, start)
    seen, offset, refused = {}, start, False
    while offset < log.log_end_offset:
        try:
            read = log.read(offset, max_bytes=300, max_offset=log.log_end_offset)
        except StratalogError:
            return "refused"
        data = bench_type.content(read)
        assert read.next_offset > offset, (where, offset)
        refused |= take(data, seen)
        offset = read.next_offset
    differing = {at: one for at, one in seen.items() if wanted.get(at) != one}
    missing = wanted.keys() - seen.keys()
    if name.endswith(".log") and not told and (differing or missing):
        header_only = set(differing.values()) <= set(wanted.values())
        assert header_only, (where, differing)
        assert refused or not verified(image, where), (where, differing, missing)
        return "refused" if refused else "header"
    assert not differing, (where, differing)
    assert told or refused or not missing, (where, missing)
    if not told and not refused and not name.endswith((".txnindex", ".log")):
        found = log.aborted_transactions(0, log.log_end_offset)
        if partition.topic in ("cleaned", "once"):  # derived anew, a transaction begins with what is left of it
            found = [
                one._replace(first_offset=was.first_offset)
                for one, was in zip(found, image.aborted[partition], strict=True)
            ]
        assert found == image.aborted[partition], where
    return "refused" if refused else "unharmed"


def verified(image: Image, where: tuple[str, int]) -> bool:
    """Whether a start reads the batches of this file: the last segments after a kill."""
    name, _ = where
    partition, _, file = name.partition("/")
    logs = sorted(one.name for one in (image.path / partition).glob("*.log"))
    return not (image.path / ".kafka_cleanshutdown").exists() and [file] == logs[-1:]


def test_a_flipped_bit_of_a_sample_loses_no_acknowledged_record_silently(image, bench_type, tmp_path):
    """As many as a second or two allow: one or two of every file, and more of what a start verifies."""
    dice = random.Random(18)
    every: dict[str, list[tuple[str, int]]] = {}
    for where in places(image):
        every.setdefault(where[0], []).append(where)
    outcomes = set()
    for name, of_file in every.items():
        count = 8 if verified(image, (name, 0)) else 1
        for where in dice.sample(of_file, min(count, len(of_file))):
            outcomes.add(judge(image, bench_type, tmp_path / "copy", where))
    killed = not (image.path / ".kafka_cleanshutdown").exists()
    assert outcomes >= ({"unharmed", "told"} if killed else {"unharmed", "refused"})


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_flipped_bit_loses_no_acknowledged_record_silently(image, bench_type, tmp_path):
    """The full sweep, some 90,000 starts after a kill and as many after a stop."""
    outcomes = Counter(judge(image, bench_type, tmp_path / "copy", where) for where in places(image))
    assert outcomes["unharmed"] > outcomes["told"]
