"""A log that was copied from a cleaned one is compared with its archive."""

import errno

import pytest

from stratalog.broker.archive import reconciling
from stratalog.hot.config import LogConfig
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import Corrupt
from tests.broker.archive.reconciling_rig import PARTITION, Rig


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


@pytest.mark.parametrize(
    ("offsets", "end"),
    [
        ([(0, 0), (1, 10), (1, 15)], 20),
        ([(0, 0), (1, 15)], 20),
        ([(0, 0), (0, 5), (1, 10), (1, 15)], 15),
        ([(0, 0), (2, 5), (2, 10), (2, 15)], 15),
        ([(0, 0), (0, 15)], 15),
    ],
    ids=["bare", "bare up to its end", "forked earlier", "forked later", "forked behind the gap"],
)
def test_a_log_without_the_first_batches_of_an_epoch_is_kept(rig, offsets, end):
    """It was copied from a log whose cleaner had removed them.

    With a batch of another epoch in their place the archive wins, as with one of an earlier epoch behind them.
    """
    rig.log = rig.open(LogConfig(remote_storage_enable=True, cleanup_policy=frozenset({"compact"})))
    for epoch, offset in offsets:
        batch = build_batch([Record(offset + n, 1000, b"k", b"v") for n in range(5)], leader_epoch=epoch)
        rig.log.append_as_follower(memoryview(batch), leader_epoch=2, now_ms=0)
    rig.log.write_queued()
    rig.log.sync()
    archived = [(0, 0), (1, 5), (1, 10)]
    data = b"".join(
        bytes(build_batch([Record(offset + n, 1000, b"k", b"v") for n in range(5)], leader_epoch=epoch))
        for epoch, offset in archived
    )
    archive_log(rig.store, PARTITION, [data], now_ms=0)
    rig.begin()
    rig.start()
    while rig.queue:
        rig.run()
    assert rig.log.log_end_offset == end
    assert rig.finished == 1


def test_a_log_that_was_cut_in_a_gap_gives_way_to_its_archive(rig):
    """No batch follows there: it has nothing to lose, and what stood for the removed records is gone."""
    rig.log = rig.open(LogConfig(remote_storage_enable=True, cleanup_policy=frozenset({"compact"})))
    for epoch, offset in ((0, 0), (1, 30)):
        batch = build_batch([Record(offset + n, 1000, b"k", b"v") for n in range(5)], leader_epoch=epoch)
        rig.log.append_as_follower(memoryview(batch), leader_epoch=1, now_ms=0)
    rig.log.write_queued()
    rig.log.truncate_to(20)
    data = [
        bytes(build_batch([Record(offset + n, 1000, b"k", b"v") for n in range(5)], leader_epoch=epoch))
        for epoch, offset in ((0, 0), (1, 5), (1, 10))
    ]
    archive_log(rig.store, PARTITION, [b"".join(data)], now_ms=0)
    rig.begin()
    rig.start()
    while rig.queue:
        rig.run()
    assert (rig.finished, rig.restarted, rig.log.log_end_offset) == (1, 1, 15)


def test_a_range_that_cannot_be_read_may_be_of_another_history(rig, monkeypatch):
    """Damage there is no reason to believe that nothing was."""
    rig.write(4, epoch=3)
    rig.archive(3)
    rig.begin()
    monkeypatch.setattr(reconciling, "batch_at", lambda *_: (_ for _ in ()).throw(Corrupt("damage")))
    rig.start()
    rig.run()
    rig.run()
    assert (rig.log.log_end_offset, rig.restarted) == (15, 1)


def test_a_disk_that_fails_in_a_comparison_is_reported(rig, monkeypatch):
    """Whether a range has batches is read from it."""
    rig.write(4, epoch=3)
    rig.archive(3)
    rig.begin()
    monkeypatch.setattr(reconciling, "batch_at", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "refused")))
    rig.start()
    rig.run()
    assert len(rig.reported) == 1
    assert rig.finished == 0
