"""An upload that is damaged on its way to the bucket, or there: the local log is sound and is sent again."""

import pytest

from stratalog.tier.messages import commands
from stratalog.tier.stores.s3.errors import code_error
from stratalog.tier.stores.wrappers import StoreWrapper
from stratalog.tier.work.work import Worker
from tests.broker.archive.archive_rig import Rig


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
