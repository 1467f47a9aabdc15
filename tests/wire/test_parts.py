"""Parts of a response."""

import os

from stratalog.wire.parts import FileSlice, parts_length


def test_parts_count_their_bytes(tmp_path):
    """Memory and file ranges add up."""
    with (tmp_path / "f").open("w+b") as file:
        assert parts_length([b"ab", bytearray(3), memoryview(b"cdef"), FileSlice(file, 10, 100)]) == 109


def test_a_slice_outlives_the_name_of_its_file(tmp_path):
    """Eviction unlinks; a reader that holds a slice still reads."""
    path = tmp_path / "00.log"
    path.write_bytes(b"0123456789")
    part = FileSlice(path.open("rb"), 2, 3)
    path.unlink()
    assert os.pread(part.file.fileno(), part.length, part.position) == b"234"
    part.file.close()
