"""A directory that another broker had in between: it writes Kafka's files, and none of ours."""

import os
from pathlib import Path

import pytest

from stratalog.hot.cleaner_offsets import note_cleaner_offset
from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.storage import checkpoint
from stratalog.wire.topic import TopicPartition

FLIGHTS = TopicPartition("flights", 0)


@pytest.mark.parametrize(
    "stop", ["clean", "kill", "kill before it wrote log starts", "kill before its cleaner's checkpoint"]
)
def test_gaps_that_another_broker_has_left_are_no_damage(bench_type, compactor_type, files, tmp_path, stop):
    """Kafka takes the directory over, writes and cleans further, and knows nothing of ``log-bounds``."""
    root = str(tmp_path / "logs")
    config = LogConfig(
        segment_bytes=600,
        cleanup_policy=frozenset({"compact"}),
        min_cleanable_dirty_ratio=0.0,
        index_interval_bytes=200,
    )
    directory = LogDirectory.load(root, files)
    log = directory.open_log(FLIGHTS, bytes(16), config, now_ms=1)
    bench, compactor = bench_type(root), compactor_type(files)

    def clean() -> None:
        log.roll()
        log.sync()
        log.producer_state.on_high_watermark(log.log_end_offset)
        log.compaction.expect_gaps(log.active_base_offset, log.log_end_offset)
        directory.write_bounds({FLIGHTS: log})
        assert [one for one in compactor.clean(log, now_ms=bench.now_ms + 10**9) if one.changed]

    bench.write_mixed(log, 9, epoch=1, seed=3)
    clean()
    note_cleaner_offset(directory, FLIGHTS, compactor.cleaned_offset)()
    ours = Path(f"{root}/log-bounds")
    bounds, status = ours.read_bytes(), ours.stat()
    bench.write_mixed(log, 30, epoch=4, seed=5)
    log.sync()
    clean()
    if stop == "kill before its cleaner's checkpoint":
        directory.write_checkpoints({FLIGHTS: log})
        log.abandon()
    else:
        note_cleaner_offset(directory, FLIGHTS, compactor.cleaned_offset)()
        directory.close({FLIGHTS: log}, broker_epoch=1)
        if stop != "clean":
            Path(f"{root}/{checkpoint.CLEAN_SHUTDOWN}").unlink()
    end = log.log_end_offset
    ours.write_bytes(bounds)
    os.utime(ours, ns=(status.st_atime_ns, status.st_mtime_ns))
    starts_ns = status.st_mtime_ns if stop == "kill before it wrote log starts" else status.st_mtime_ns + 10**9
    os.utime(f"{root}/{checkpoint.LOG_START_OFFSETS}", ns=(starts_ns, starts_ns))
    Path(f"{root}/log-summaries").unlink(missing_ok=True)
    again = LogDirectory.load(root, files).open_log(FLIGHTS, bytes(16), config, now_ms=1)
    assert (again.missing_ranges(), again.recovery.damaged_offset, again.log_end_offset) == ([], None, end)
    offset = again.log_start_offset
    while offset < end:
        offset = again.read(offset, max_bytes=400, max_offset=end).next_offset
