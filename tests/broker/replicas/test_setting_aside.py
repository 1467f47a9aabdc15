"""The log of a topic that is gone is set aside when one of its name is opened; the new one has nothing of it."""

import errno
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from stratalog.broker.replicas.directories import Directories, Directory
from stratalog.broker.replicas.log_opening import LogOpening
from stratalog.client.admin import delete_topics
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


def test_a_replica_that_counts_does_not_begin_anew_for_a_log_that_names_no_topic(root, monkeypatch):
    """The controller hears that it is gone, and it is copied again; no name alone makes it the log of this topic."""
    Path(root, "t-0", "partition.metadata").write_bytes(b"rotten")
    _, opening = started(root)
    told = []
    monkeypatch.setattr(opening._table, "add_unopened", lambda *about: told.append(about[-1]))
    counted = {"leader_epoch_max": 1, "others_have_it": True, "placed_in": b"d" * 16}
    assert opening.open(NAMES[0], NEW, LogConfig(), **counted, is_counted_on=True) is None
    assert opening.given_up == {NAMES[0]: NEW}
    assert "its log is gone from" in told[0]
    assert opening.open(NAMES[0], NEW, LogConfig(), **counted).log.log_end_offset == 0
    (kept,) = Path(root).glob("t-0.*-stray")
    assert (kept / "00000000000000000000.log").stat().st_size > 0


def test_the_only_replica_is_offline_while_its_log_names_no_topic(root, monkeypatch):
    """It says how it comes back."""
    file = Path(root, "t-0", "partition.metadata")
    good = file.read_bytes()
    file.write_bytes(b"rotten")
    told = []
    for content in (b"rotten", good):
        file.write_bytes(content)
        _, opening = started(root)
        monkeypatch.setattr(opening._table, "add_unopened", lambda *about: told.append(about[-1]))
        opened = opening.open(NAMES[0], OLD, LogConfig(), leader_epoch_max=1)
    assert [repr(good.decode()) in each for each in told] == [True]
    assert opened.log.log_end_offset == 10


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


class OneRefusal:
    """One call finds no room: the first rename to a name with this end, or the sync of its directory behind it."""

    def __init__(self, monkeypatch, end, where, number=errno.ENOSPC):
        self.seen = False
        real_rename, real_sync = RealFilesystem.rename, RealFilesystem.sync_directory
        refused = []

        def refuse(call):
            if self.seen and call == where and not refused:
                refused.append(call)
                raise OSError(number, "refused")

        def rename(files, source, target):
            self.seen = self.seen or target.endswith(end)
            refuse("rename")
            real_rename(files, source, target)

        def sync(files, path):
            refuse("sync")
            real_sync(files, path)

        self.refused = refused
        monkeypatch.setattr(RealFilesystem, "rename", rename)
        monkeypatch.setattr(RealFilesystem, "sync_directory", sync)


@pytest.mark.parametrize("where", ["rename", "sync"])
def test_a_topic_whose_deletion_found_no_room_shows_nothing_when_it_is_made_again(broker, monkeypatch, where):
    """It showed the records of the one before."""
    broker.create("t")
    broker.produce("t", b"old")
    refusal = OneRefusal(monkeypatch, "-delete", where)
    delete_topics(broker.client(), ["t"])
    broker.wait_until(lambda: refusal.refused)
    broker.create("t")
    assert broker.values("t") == []
    assert broker.produce("t", b"new") == [0]


def test_a_deletion_that_found_no_room_is_done_without_a_new_topic(start_node, monkeypatch):
    """Its files lay there for ever."""
    broker = start_node(log_segment_delete_delay_ms=200)
    broker.create("t")
    refusal = OneRefusal(monkeypatch, "-delete", "rename")
    delete_topics(broker.client(), ["t"])
    broker.wait_until(lambda: refusal.refused)
    broker.wait_until(lambda: not list(Path(broker.directory, "data").glob("t-0*")))


def left_behind(broker):
    """Files of a topic that is gone, where those of one of its name are to be, as a crash leaves them."""
    broker.create("t")
    broker.produce("t", b"old")
    path = Path(broker.directory, "data", "t-0")
    saved = {one.name: one.read_bytes() for one in path.iterdir()}
    delete_topics(broker.client(), ["t"])
    broker.create("t")
    broker.stop()
    shutil.rmtree(path)
    path.mkdir()
    for name, content in saved.items():
        (path / name).write_bytes(content)


@pytest.mark.parametrize("where", ["rename", "sync"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
def test_a_log_that_found_no_room_aside_does_not_keep_its_topic_offline(broker, monkeypatch, where, number):
    """It did until the next start."""
    left_behind(broker)
    refusal = OneRefusal(monkeypatch, "-stray", where, number)
    broker.start()
    broker.wait_until(lambda: broker.node.partitions.get(TopicPartition("t", 0)) is not None)
    assert refusal.refused
    assert broker.values("t") == []


def test_a_log_that_cannot_be_moved_on_a_bad_disk_leaves_it_to_the_others(start_node, tmp_path, monkeypatch):
    """Its topic was made again. The bad disk was written to, and the partition stayed offline."""
    node = start_node(log_dirs=",".join(str(tmp_path / name) for name in ("a", "b")))
    node.create("t", 2)
    node.produce("t", b"old", partition=0)
    node.produce("t", b"old", partition=1)
    node.restart()
    (bad,) = [one for one in node.node.directories.all if not Path(one.path, "__cluster_metadata-0").exists()]
    node.run(bad.writer.fail, OSError(errno.EROFS, "Read-only file system"))
    touched, real = [], RealFilesystem.rename

    def rename(files, source, target):
        if source.startswith(bad.path):
            touched.append(source)
            raise OSError(errno.EROFS, "Read-only file system", source)
        real(files, source, target)

    monkeypatch.setattr(RealFilesystem, "rename", rename)
    delete_topics(node.client(), ["t"])
    node.create("t", 2)
    assert [node.values("t", number) for number in range(2)] == [[], []]
    assert touched == []


def test_a_log_of_before_that_finds_no_room_aside_is_tried_again(tmp_path, monkeypatch):
    """It lies on a disk that was away while the replica was begun anew on another one."""
    reported, unopened, directories = [], [], []
    for name, directory_id in (("a", b"a" * 16), ("b", b"b" * 16)):
        files = LogDirectory.load(str(tmp_path / name), RealFilesystem())
        files.open_log(NAMES[0], NEW, LogConfig(), now_ms=1).close()
        files = LogDirectory.load(str(tmp_path / name), RealFilesystem())
        writer = SimpleNamespace(offline=None, report=reported.append, path=files.path, unhurried_count=0)
        directories.append(Directory(files, writer, directory_id, 0, None))
    table = SimpleNamespace(add_unopened=lambda *told: unopened.append(told))
    clock = SimpleNamespace(wall_ms=lambda: 1)
    opening = LogOpening(Directories(directories, "c", 2), table, clock, segments_open_max=100)

    def tried():
        return opening.open(NAMES[0], NEW, LogConfig(), leader_epoch_max=1, placed_in=b"b" * 16)

    OneRefusal(monkeypatch, "-stray", "rename")
    assert tried() is None
    assert len(reported) == len(unopened) == 1
    assert [one.topic_id for one in opening.taking_unopened()] == [NEW]
    assert tried().directory is directories[1]
    assert list((tmp_path / "a").glob("t-0.*-stray"))
