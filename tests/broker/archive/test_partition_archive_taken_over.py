"""An archive that another cluster owns from now on, while this one goes on acknowledging records."""

import pytest
from msgspec.structs import replace

from stratalog.broker.archive.retention import planned_log_start, retained_bytes
from stratalog.tier.bucket.trash import DELETED_RECORDS
from stratalog.tier.manifests.manifest import REPAIR, Claimant, set_log_start, successor, take_over
from stratalog.tier.manifests.manifest_store import change_manifest
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch
from tests.broker.archive.archive_rig import CONFIG, PARTITION, Rig

OWNER = Claimant(1, 7, b"o" * 16)


def taken_over(tmp_path, config=CONFIG) -> Rig:
    """Archived records [0, 40), then a takeover, then more that are only local."""
    rig = Rig(tmp_path, config)
    rig.write(9)
    rig.settle()
    change_manifest(rig.store, PARTITION, lambda manifest: take_over(manifest, OWNER, now_ms=1))
    rig.write(9)
    rig.settle()
    assert rig.archive.fenced
    return rig


def owner_archives(rig, start=40) -> None:
    """Its records up to 60: this cluster has others there."""
    batches = [[Record(base + n, 1000, None, b"o" * 60) for n in range(5)] for base in range(start, 60, 5)]
    data = b"".join(bytes(build_batch(records, leader_epoch=7)) for records in batches)
    archive_log(rig.store, PARTITION, [data], now_ms=2, claimant=OWNER)
    rig.unified.remote.refresh()
    rig.settle()


def test_it_ends_where_the_local_disk_begins(tmp_path):
    """The records that the owner archives behind that are not of this log."""
    rig = taken_over(tmp_path)
    owner_archives(rig)
    remote = rig.unified.remote
    assert (rig.manifest.remote_end, rig.log.first_base_offset) == (60, 40)
    assert (remote.start_offset, remote.end_offset, remote.state.remote_end_offset) == (0, 40, 40)
    assert remote.archive_clean_offset == 0


def test_it_ends_where_an_owner_goes_on_that_has_gone_back_to_a_cut(tmp_path):
    """The records between that and the local disk are lost. Those of the owner, at the same offsets, are others."""
    rig = taken_over(tmp_path)
    kept = tuple(one for one in rig.manifest.entries if one.end <= 20)
    change_manifest(rig.store, PARTITION, lambda held: successor(replace(held, entries=kept, remote_end=20), REPAIR, 2))
    owner_archives(rig, 20)
    remote = rig.unified.remote
    assert (rig.manifest.remote_end, rig.log.first_base_offset) == (60, 40)
    assert (remote.start_offset, remote.end_offset, remote.state.remote_end_offset) == (0, 20, 20)
    rig.log.update_config(replace(rig.log.config, retention_bytes=0))
    assert planned_log_start(rig.unified, remote, 0) == rig.log.active_base_offset


def test_its_log_start_takes_nothing_that_is_only_local(tmp_path):
    """The owner deletes its own records there; what it deletes of the common ones cannot be read any more."""
    rig = taken_over(tmp_path)
    for offset, start in ((20, 20), (70, 40)):
        change_manifest(
            rig.store,
            PARTITION,
            lambda held, to=offset: set_log_start(held, OWNER, to, now_ms=2, resume_at=to, reason=DELETED_RECORDS),
        )
        rig.unified.remote.refresh(entries=False)
        rig.settle()
        assert rig.log.log_start_offset == start
    assert rig.unified.remote.start_offset == 40


def test_retention_counts_local_records_and_those_that_both_logs_have(tmp_path):
    """The owner's records are others, with other times and sizes."""
    rig = taken_over(tmp_path)
    owner_archives(rig)
    remote, local_bytes = rig.unified.remote, sum(one.size_bytes for one in rig.log.segments())
    below = sum(entry.data_bytes for entry in rig.manifest.entries if entry.end <= 40)
    assert retained_bytes(rig.unified, remote) == below + local_bytes
    rig.log.update_config(replace(rig.log.config, retention_bytes=below + local_bytes))
    assert planned_log_start(rig.unified, remote, 0) == 0
    rig.log.update_config(replace(rig.log.config, retention_bytes=local_bytes))
    assert planned_log_start(rig.unified, remote, 0) == 40


@pytest.mark.parametrize("base", [0, 40])
def test_retention_counts_no_byte_of_an_object_of_the_owner_beyond_the_border(tmp_path, base):
    """The border lies inside one where the owner merges, or where the first local segments have gone by retention."""
    rig = taken_over(tmp_path)
    inputs = rig.manifest.entries
    records = [[Record(at + n, 1000, None, b"o" * 600) for n in range(5)] for at in range(base, 200, 5)]
    data = b"".join(bytes(build_batch(one, leader_epoch=7 if one[0].offset >= 40 else 1)) for one in records)
    if not base:
        change_manifest(
            rig.store, PARTITION, lambda held: successor(replace(held, entries=(), remote_end=0), REPAIR, 2)
        )
    archive_log(rig.store, PARTITION, [data], now_ms=2, claimant=OWNER)
    assert len(rig.manifest.entries) == (len(inputs) + 1 if base else 1)
    rig.unified.remote.refresh()
    rig.settle()
    rig.write(20)
    local_bytes = sum(one.size_bytes for one in rig.log.segments())
    below = sum(entry.data_bytes for entry in inputs) if base else rig.manifest.entries[0].data_bytes * 40 // 200
    assert retained_bytes(rig.unified, rig.unified.remote) == below + local_bytes
    rig.log.update_config(replace(rig.log.config, retention_bytes=local_bytes - 1000))
    start = planned_log_start(rig.unified, rig.unified.remote, 0)
    assert start == 50
    rig.log.advance_log_start(start)
    rig.log.delete_local_before(start)
    left_bytes = sum(one.size_bytes for one in rig.log.segments())
    assert retained_bytes(rig.unified, rig.unified.remote) == left_bytes
    assert planned_log_start(rig.unified, rig.unified.remote, 0) == start


def test_no_local_file_goes_on_account_of_it(tmp_path):
    """It was read back before; the owner may have gone back to a cut since, or have removed it."""
    rig = taken_over(tmp_path, replace(CONFIG, local_retention_bytes=10_000_000))
    assert rig.archive.archived_end == rig.manifest.remote_end > rig.log.first_base_offset == 0
    rig.log.update_config(CONFIG)
    rig.archive.configured()
    rig.settle()
    assert rig.log.first_base_offset == 0
