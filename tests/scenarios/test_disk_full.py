"""A real file system without room: short writes, then ENOSPC, then room again."""

import os
import subprocess

import pytest

from stratalog.wire.errors import ErrorCode

SIZE_BYTES = 6 << 20


@pytest.fixture
def small_disk(tmp_path):
    """A file system of six megabytes; skipped where it may not be mounted."""
    place = tmp_path / "small"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip(f"no tmpfs here: {mount.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_costs_no_acknowledged_record_and_no_hole(start_node, small_disk, new_batch):
    """Refusals can be retried, reads go on, and after there is room the log continues where it was."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(3 << 20))
    node = start_node(log_dirs=f"{small_disk}/data", replica_high_watermark_checkpoint_interval_ms=50)
    node.create("t", segment_bytes=1 << 20)
    acknowledged, refused = [], 0
    for number in range(60):
        value = b"%d " % number + b"x" * 100_000
        answer = node.append("t", new_batch(value))
        if answer.error_code:
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            refused += 1
        else:
            assert answer.base_offset == len(acknowledged)
            acknowledged.append(value)
    assert refused > 20
    assert acknowledged
    assert node.values("t") == acknowledged
    assert node.node.not_ready() == []
    ballast.unlink()
    node.wait_until(lambda: not node.partition("t").partition.directory._refused)
    assert node.produce("t", b"after") == [len(acknowledged)]
    assert node.create("another").partition_count == 1
    node.restart()
    assert node.values("t") == [*acknowledged, b"after"]
    node.stop()
