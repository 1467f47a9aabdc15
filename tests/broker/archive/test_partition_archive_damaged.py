"""An upload that is damaged on its way to the bucket, or there: the local log is sound and is sent again."""

import struct

import pytest
from crc32c import crc32c

from stratalog.hot.log.log import Log
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.tier.care.verify_object import verify_object_bytes
from stratalog.tier.messages import commands
from stratalog.tier.stores.s3.errors import code_error
from stratalog.tier.stores.wrappers import StoreWrapper
from stratalog.tier.work.work import Worker
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.compression import Codec
from stratalog.wire.topic import TopicPartition
from tests.broker.archive.archive_rig import CONFIG, PARTITION, Rig


class OnceDamaged(StoreWrapper):
    """Damages the first object: the store notices and refuses it as S3 does, or it keeps other bytes."""

    def __init__(self, inner, *, refuses):
        super().__init__(inner)
        self.refuses, self.damaged = refuses, ""

    def put_if_absent(self, key, data, *, crc32c=None, metadata=None):
        """The first one fails; all others pass."""
        if not key.endswith(".seg") or self.damaged:
            return self.inner.put_if_absent(key, data, crc32c=crc32c, metadata=metadata)
        self.damaged = key
        if self.refuses:
            message = "The CRC32C you specified did not match what we received."
            raise code_error("put_if_absent", key, self.url, code="BadDigest", status=400, message=message)
        return str(self.inner.put_if_absent(key, b"damaged"))


@pytest.mark.parametrize("refuses", [True, False], ids=["BadDigest", "another object"])
def test_an_object_that_is_damaged_on_its_way_is_sent_again(tmp_path, caplog, refuses):
    """It quarantines nothing; the log has the store's reason, and the next attempt has a key of its own."""
    rig = Rig(tmp_path)
    store = OnceDamaged(rig.store, refuses=refuses)
    rig.worker = Worker(store)
    rig.write(9)
    rig.settle()
    assert (rig.archive.state, rig.archive.corrupt) == ("held", None)
    assert rig.manifest.remote_end == rig.log.active_base_offset
    assert store.damaged not in [entry.key for entry in rig.manifest.entries]
    (told,) = [one.getMessage() for one in caplog.records if "upload did not succeed" in one.getMessage()]
    assert store.damaged in told
    assert rig.unified.metrics.remote_copy_errors == 1


def test_the_archive_goes_on_once_the_damaged_records_are_deleted(tmp_path):
    """Without a restart: the log start has moved past them, and the manifest has heard of it."""
    rig = Rig(tmp_path)
    rig.write(9)
    rig.archive.look()
    rig.step()
    (upload, answered) = rig.queue.pop(0)
    answered(commands.CorruptReport(upload.request.partition, "x", 0, 0, "damaged"))
    rig.settle()
    assert (rig.archive.state, rig.archive.corrupt, rig.manifest.remote_end) == ("quarantined", "damaged", 0)
    rig.log.advance_log_start(upload.request.end)
    rig.settle()
    assert (rig.archive.state, rig.archive.corrupt) == ("held", None)
    assert rig.manifest.log_start_offset == upload.request.end
    assert rig.manifest.remote_end == rig.log.active_base_offset


def test_a_log_that_has_lost_offsets_for_good_is_archived_from_there_on(tmp_path):
    """Its start has put an empty batch in their place. All that came later would stay on the disk only, and fill it."""
    rig = Rig(tmp_path)
    rig.write(3)
    end = rig.log.log_end_offset
    rig.log.abandon()
    active = max((tmp_path / "t-0").glob("*.log"))
    data = bytearray(active.read_bytes())
    data[-5] ^= 1
    active.write_bytes(data)
    rig.log = rig.unified.log = Log.open(
        str(tmp_path / "t-0"),
        TopicPartition("t", 0),
        bytes(16),
        CONFIG,
        files=RealFilesystem(),
        now_ms=0,
        clean=False,
        recovery_point=end,
        durable_end=end,
    )
    assert rig.log.log_end_offset == end
    rig.archive = rig.lead(2)
    rig.write(8)
    rig.settle()
    assert (rig.archive.state, rig.archive.corrupt) == ("held", None)
    assert rig.manifest.remote_end == rig.log.active_base_offset == rig.log.first_base_offset
    assert [entry.compacted for entry in rig.manifest.entries] == [
        entry.base < end <= entry.end for entry in rig.manifest.entries
    ]
    assert [found for entry in rig.manifest.entries for found in verify_object_bytes(rig.store, PARTITION, entry)] == []


def test_a_batch_that_cannot_be_opened_keeps_no_log_from_its_archive(tmp_path, caplog):
    """One producer's batch would fill the disk with all that comes later. It is archived as it is, and the log says so."""
    rig = Rig(tmp_path)
    rig.write(3)
    batch = bytearray(build_batch([Record(n, 1000, None, b"v" * 60) for n in range(5)], codec=Codec.GZIP))
    batch[61:] = bytes(len(batch) - 61)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    rig.log.append_as_leader(memoryview(batch), leader_epoch=1, now_ms=0)
    rig.write(6)
    rig.settle()
    assert (rig.archive.state, rig.archive.corrupt) == ("held", None)
    assert rig.manifest.remote_end == rig.log.active_base_offset > 20
    (told,) = [one.getMessage() for one in caplog.records if "as their producer sent them" in one.getMessage()]
    assert "1 of 3, first the one at offset 15: a gzip block" in told
    assert not any(verify_object_bytes(rig.store, PARTITION, entry) for entry in rig.manifest.entries)
