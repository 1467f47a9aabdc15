"""A disk of the chunk cache that takes no file: readers hear of it, and the bucket is not read for nothing."""

from __future__ import annotations

import errno

import pytest

from stratalog.tier.stores.wrappers import CountingStore
from stratalog.tier.work.work import Worker
from stratalog.wire.errors import ErrorCode, KafkaError
from tests.broker.cold.test_reader import Rig


class Disk(Rig):
    """The rig with a disk that can fail, and readers that ask every half a second."""

    def __init__(self, tmp_path) -> None:
        super().__init__(tmp_path)
        self.counted = CountingStore(self.store)
        self.worker = Worker(self.counted)

    def minute(self):
        """How many answers and errors one reader got."""
        answers, errors = 0, []
        for _ in range(120):
            self.now_ms += 500
            try:
                answers += self.remote.read("r", 3, 1000) is not None
            except KafkaError as error:
                errors.append(error)
            self.run()
        return answers, errors


@pytest.mark.parametrize("number", [errno.EROFS, errno.EIO, errno.ENOSPC])
def test_readers_hear_of_a_disk_that_takes_no_file(tmp_path, monkeypatch, number):
    """After a few tries, with an error that clients try again; when it takes files again they get their records."""

    def refuse(path, *_, **__):
        raise OSError(number, "no", path)

    disk = Disk(tmp_path)
    monkeypatch.setattr("stratalog.tier.reading.fill.write_chunk_file", refuse)
    answers, errors = disk.minute()
    assert answers == 0
    assert len(errors) > 80
    assert {error.code for error in errors} == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert "takes no file" in str(errors[0])
    assert disk.counted.count("get_range") < 30
    monkeypatch.undo()
    answers, errors = disk.minute()
    assert answers > 100
