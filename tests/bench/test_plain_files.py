"""Plain files as the limit of a disk."""

import pytest

from bench.plain_files import appended_p99_ms, synced_rate


def test_a_file_has_a_rate_and_is_gone(tmp_path):
    """Pieces that do not fill a sync are synced at the end."""
    assert synced_rate(tmp_path, 3 << 20, 2 << 20) > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sync_bytes", [0, 1 << 20])
def test_records_take_time(tmp_path, sync_bytes):
    """Beside a file that grows within its rate, or alone; only that of the records is left."""
    assert appended_p99_ms(tmp_path, 0.05, sync_bytes=sync_bytes, rate=20e6) > 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["replica-0", "replica-1", "replica-2"]
