"""A cut at a log start that lies within a batch."""

from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.topic import TopicPartition


def test_producers_forget_a_batch_that_reaches_across_the_cut(tmp_path):
    """Else its retry would be answered as a duplicate, and its records be nowhere."""
    name, files = TopicPartition("t", 0), RealFilesystem()
    log = Log.open(str(tmp_path / "t-0"), name, bytes(16), LogConfig(), files=files, now_ms=0, clean=True)
    records = [Record(number, 0, None, b"v") for number in range(3)]
    batch = build_batch(records, producer_id=7, producer_epoch=0, base_sequence=0)
    log.append_as_leader(memoryview(batch), leader_epoch=0, now_ms=0)
    log.sync()
    log.advance_log_start(1)
    log.truncate_to(1)
    assert (log.log_start_offset, log.log_end_offset) == (1, 1)
    assert 7 not in log.producer_state.entries
