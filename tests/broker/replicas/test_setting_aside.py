"""The log of a topic that is gone is set aside when one of its name is opened; the new one has nothing of it."""

from types import SimpleNamespace

import pytest

from stratalog.broker.replicas.directories import Directories, Directory
from stratalog.broker.replicas.log_opening import LogOpening
from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.stale_rows import forget_removed
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.topic import TopicPartition

NAMES, OLD, NEW = [TopicPartition("t", 0), TopicPartition("t", 1)], b"o" * 16, b"n" * 16
OTHER = TopicPartition("other", 0)


class Killed(BaseException):
    """No handler is to take it for an error."""


def started(root):
    """The log openings of a broker that starts."""
    found = LogDirectory.load(root, RealFilesystem())
    forget_removed(found)
    writer = SimpleNamespace(offline=None, report=pytest.fail, path=root, sync_together=lambda owner: None)
    directories = Directories([Directory(found, writer, b"d" * 16, 0, None)], "c", 2)
    table = SimpleNamespace(add_unopened=lambda *told: pytest.fail(str(told)))
    return found, LogOpening(directories, table, SimpleNamespace(wall_ms=lambda: 1), segments_open_max=100)


def opened(opening, name, topic_id=NEW):
    """The log of a partition."""
    return opening.open(name, topic_id, LogConfig(), leader_epoch_max=1, others_have_it=True).log


@pytest.fixture
def root(tmp_path):
    """Ten records in each partition of a topic and in one of another, the first four deleted, as a kill leaves them."""
    directory = LogDirectory.load(str(tmp_path / "d"), RealFilesystem())
    logs = {}
    for name in (*NAMES, OTHER):
        log = logs[name] = directory.open_log(name, OLD if name in NAMES else b"x" * 16, LogConfig(), now_ms=1)
        for _ in range(10):
            log.append_as_leader(build_batch([Record(0, 1, None, b"v")]), leader_epoch=1, now_ms=1)
        log.sync()
        log.advance_log_start(4)
    directory.write_checkpoints(logs)
    directory.write_high_watermarks(dict.fromkeys(logs, 10))
    for log in logs.values():
        log.abandon()
    return directory.path


def test_a_kill_behind_the_move_leaves_the_new_log_no_rows(root, monkeypatch):
    """Its copy began at the log start of the topic that was deleted, and lacked what its leader has below."""
    real = RealFilesystem.rename

    def killed(self, source, target):
        real(self, source, target)
        if target.endswith("-stray"):
            raise Killed

    _, opening = started(root)
    with monkeypatch.context() as patched:
        patched.setattr(RealFilesystem, "rename", killed)
        with pytest.raises(Killed):
            opened(opening, NAMES[0])
    _, opening = started(root)
    log = opened(opening, NAMES[0])
    assert (log.log_start_offset, log.log_end_offset, log.recovery.damaged_offset) == (0, 0, None)


def test_the_rows_of_a_topic_go_once_and_those_of_others_stay(root, monkeypatch):
    """A topic of a thousand partitions writes no thousand checkpoints."""
    found, opening = started(root)
    written = []
    real = LogDirectory.write_recovery_points
    monkeypatch.setattr(LogDirectory, "write_recovery_points", lambda self, rows: written.append(1) or real(self, rows))
    for name in NAMES:
        assert opened(opening, name).log_end_offset == 0
    assert len(written) == 1
    assert found.recovery_points[OTHER] == found.high_watermarks[OTHER] == 10
    again, opening = started(root)
    assert (again.log_start_offsets[OTHER], again.high_watermarks[OTHER]) == (4, 10)
    assert opened(opening, OTHER, b"x" * 16).log_start_offset == 4
