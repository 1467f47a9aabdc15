"""A voter's metadata log gets shorter: a power cut anywhere leaves one that its start takes, with all that was synced."""

import random
from types import SimpleNamespace

import pytest

from stratalog.broker.quorum.batches import data_batch
from stratalog.broker.quorum.metadata_log import open_metadata_log, snapshots_in
from stratalog.broker.quorum.replica import MetadataReplica
from stratalog.hot.directory import LogDirectory
from stratalog.metadata.image.image import EMPTY_IMAGE, Provenance
from stratalog.metadata.image.snapshot import SnapshotId, build_snapshot

BEHIND, WITHIN = SnapshotId(9, 3), SnapshotId(3, 1)
FOUND = {
    "begin": {(0, 6), (0, 4), (0, 2), (9, 9)},
    "delete": {(0, 6), (2, 6)},
    "cut": {(0, 6), (0, 4), (0, 3)},
}
"""Where the log begins and ends, by the change that the power cut comes in."""


def opened(files):
    """The replica as a start finds it, and its log directory."""
    directory = LogDirectory.load("/d", files)
    log = open_metadata_log(SimpleNamespace(files=directory), now_ms=1)
    writer = SimpleNamespace(add=lambda _owner: None, offline=None)
    return directory, MetadataReplica(log, directory=writer, files=files, threads=None)


def content(snapshot):
    return build_snapshot(EMPTY_IMAGE.apply((), Provenance(snapshot.end_offset - 1, snapshot.epoch, 1)))


@pytest.mark.parametrize("is_kept", [False, True], ids=["no checkpoint", "checkpoints"])
@pytest.mark.parametrize("change", ["begin", "delete", "cut"])
def test_a_power_cut_leaves_a_log_that_a_start_takes(journaled, power_cut, change, is_kept):
    """It must not look like damage, which a voter refuses."""
    files = journaled()
    directory, replica = opened(files)
    for offset in range(6):
        replica.write([data_batch([b"v" * 50], base_offset=offset, epoch=1, timestamp_ms=1)], epoch=1, now_ms=1)
        if offset % 2:
            replica.log.roll()
    replica.log.sync()
    if is_kept:
        directory.write_checkpoints({replica.topic_partition: replica.log})
    for snapshot in (BEHIND, WITHIN):
        replica.write_snapshot(snapshot, content(snapshot))
    calls = len(files.journal)
    work = {
        "begin": lambda: replica.begin_behind(BEHIND),
        "delete": lambda: replica.delete_before(WITHIN),
        "cut": lambda: replica.truncate(3),
    }
    work[change]()
    replica.log.sync()
    found = set()
    for call in range(calls, len(files.journal) + 1):
        for seed in range(8):
            image = power_cut(files, None, call, random.Random(seed))
            _, again = opened(image)
            found.add((again.log.log_start_offset, again.log.log_end_offset))
            assert set(snapshots_in(image, again.log.directory)) == {BEHIND, WITHIN}
    assert found == FOUND[change]
