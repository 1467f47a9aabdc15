"""Tests of broker/workers/cleaner_files.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.workers.cleaner_files import CleanerFilesystem
from stratalog.hot.storage.filesystem import append_all
from stratalog.tier.stores.direct_file import PIECE_BYTES

SIZES = st.lists(st.sampled_from([0, 1, 4095, 4096, 70_000, PIECE_BYTES, PIECE_BYTES + 1]), max_size=8)


@given(st.lists(SIZES, max_size=4))
def test_a_new_log_holds_what_was_appended(tmp_path_factory, writes):
    """Any cut into buffers and calls gives the same bytes; after the sync they are read by the file's name."""
    path = tmp_path_factory.mktemp("log") / "00.log.cleaned"
    path.write_bytes(b"of a cleaning that was given up")
    file = CleanerFilesystem().open_append(str(path))
    file.truncate(0)
    whole = b""
    for number, sizes in enumerate(writes):
        buffers = [bytes([number * 10 + at]) * size for at, size in enumerate(sizes)]
        assert append_all(file, buffers) == sum(sizes)
        whole += b"".join(buffers)
    assert file.size_bytes() == len(whole)
    file.fdatasync()
    file.fdatasync()
    assert file.pread(len(whole) + 1, 0) == whole == path.read_bytes()
    file.close()
    file.close()


def test_other_files_are_as_ever(tmp_path):
    """Indexes are small; nothing else is written by the cleaner."""
    files = CleanerFilesystem()
    file = files.open_append(str(tmp_path / "00.index.cleaned"))
    append_all(file, [b"abc"])
    file.truncate(1)
    file.close()
    assert files.read_bytes(str(tmp_path / "00.index.cleaned")) == b"a"


def test_settings_a_new_log_cannot_serve_are_refused(tmp_path):
    """It is neither cut nor sent while it is written."""
    file = CleanerFilesystem().open_append(str(tmp_path / "00.log.cleaned"))
    append_all(file, [b"abc"])
    with pytest.raises(ValueError, match="cannot be cut"):
        file.truncate(1)
    with pytest.raises(ValueError, match="being written"):
        file.fileno()
    file.drop_cache()
    file.close()
