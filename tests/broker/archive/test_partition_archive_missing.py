"""An archive whose log has a missing range: below its end nothing changes, above it nothing goes on until it is given up."""

from pathlib import Path

import pytest
from msgspec import structs

from stratalog.hot.segments.scan import UnreadableBatch
from tests.broker.archive.archive_rig import CONFIG, Rig

KEPT = structs.replace(CONFIG, local_retention_bytes=-1)


@pytest.fixture
def rig(tmp_path):
    """Segments [0,10) [10,20) [20,30), all local, and an active one."""
    rig = Rig(tmp_path, KEPT)
    rig.write(7)
    return rig


def break_segment(rig, base):
    path = Path(rig.log.directory) / f"{base:020d}.log"
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data)
    return rig.log.set_aside(UnreadableBatch(str(path), 0, "seen"))


def test_above_the_archive_uploads_stop_before_it_and_go_on_when_it_is_given_up(rig):
    """It is logged, and not tried again and again."""
    missing = break_segment(rig, 10)
    rig.settle()
    assert rig.manifest.remote_end == 10
    assert rig.archive.state == "quarantined"
    assert "offsets [10, 20) are missing" in rig.archive.corrupt
    rig.log.advance_log_start(missing.end_offset)
    rig.log.delete_local_before(missing.end_offset)
    rig.archive.close()
    rig.archive = rig.lead(2)
    rig.settle()
    assert rig.archive.state != "quarantined"
    assert rig.manifest.remote_end == 30


def test_below_the_end_of_the_archive_it_does_not_matter(rig):
    """Later records are archived as ever."""
    rig.settle()
    break_segment(rig, 10)
    rig.write(4)
    rig.settle()
    assert rig.manifest.remote_end == 50
    assert rig.archive.corrupt is None
