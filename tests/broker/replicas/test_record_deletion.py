"""Log starts that move for DeleteRecords: in memory, on disk, and then the files go."""

from types import SimpleNamespace

import pytest

from stratalog.broker.replicas.record_deletion import delete_records
from stratalog.broker.runtime.slices import to_the_end
from stratalog.wire.errors import ErrorCode, KafkaError


class Disk:
    """A directory that notes, in order, log starts written down and files removed."""

    def __init__(self, *, takes: bool = True) -> None:
        self.takes = takes
        self.done: list[str] = []

    def checkpoint_steps(self, _directory, hosted):
        self.done.append(f"wrote {len(hosted())}")
        yield
        return self.takes

    def of(self, writer):
        return writer

    def report(self, error, _owner) -> None:
        self.done.append(str(error))


def hosted(disk: Disk, name: str, *, deletes: bool = True, error: OSError | None = None):
    """A partition with log start 2 and high watermark 5."""
    log = SimpleNamespace(start=2, config=SimpleNamespace(deletes=deletes))

    def delete_local_before(offset) -> None:
        disk.done.append(f"removed {name} below {offset}")
        if error is not None:
            raise error

    log.advance_log_start = lambda offset: setattr(log, "start", max(log.start, offset))
    log.delete_local_before = delete_local_before

    class Unified(SimpleNamespace):
        log_start_offset = property(lambda self: self.log.start)

    leader = SimpleNamespace(ended=None)
    partition = SimpleNamespace(high_watermark=5, directory=disk, led=lambda: leader)
    return Unified(log=log, partition=partition, topic_partition=name)


def outcomes(disk: Disk, table, wanted):
    """Log starts, and codes of errors."""
    found = to_the_end(delete_records(disk, SimpleNamespace(partitions=lambda: table), wanted))
    return [one.code if isinstance(one, KafkaError) else one.log_start_offset for one in found]


def test_log_starts_are_written_down_together_before_files_go():
    """Those of the whole directory, once; -1 is the high watermark."""
    disk = Disk()
    one, two, other = (hosted(disk, name) for name in ("one", "two", "other"))
    assert outcomes(disk, [one, two, other], [(one, 3), (two, -1)]) == [3, 5]
    assert disk.done == ["wrote 3", "removed one below 3", "removed two below 5"]
    assert other.log.start == 2


def test_a_start_that_cannot_be_written_down_removes_no_file():
    """KAFKA_STORAGE_ERROR: after a restart the records may be there again."""
    disk = Disk(takes=False)
    one = hosted(disk, "one")
    assert outcomes(disk, [one], [(one, 3)]) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert disk.done == ["wrote 1"]


@pytest.mark.parametrize(("offset", "deletes"), [(6, True), (-2, True), (3, False)])
def test_a_refusal_changes_nothing_and_leaves_others_alone(offset, deletes):
    """Beyond the high watermark, below zero, and where ``delete`` is no policy."""
    disk = Disk()
    one, two = hosted(disk, "one", deletes=deletes), hosted(disk, "two")
    code = ErrorCode.OFFSET_OUT_OF_RANGE if deletes else ErrorCode.POLICY_VIOLATION
    assert outcomes(disk, [one, two], [(one, offset), (two, 3)]) == [code, 3]
    assert one.log.start == 2


def test_a_file_that_does_not_go_is_reported():
    """To the directory and to the client."""
    disk = Disk()
    one = hosted(disk, "one", error=OSError(5, "broken"))
    assert outcomes(disk, [one], [(one, 3)]) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert disk.done[-1].endswith("broken")


def test_a_log_that_changes_its_directory_meanwhile_has_its_start_written_down():
    """It moved with its start in the checkpoints of the other directory; that of before is written all the same."""
    before, after = Disk(), Disk()
    one = hosted(before, "one")
    steps = delete_records(before, SimpleNamespace(partitions=lambda: [one]), [(one, 3)])
    next(steps)
    next(steps)
    one.partition.directory = after
    assert [deleted.log_start_offset for deleted in to_the_end(steps)] == [3]


def test_a_broker_that_does_not_lead_deletes_nothing():
    """The copy of a follower begins where its leader's does: it would show fewer records, and its answer would be wrong."""
    disk = Disk()
    one = hosted(disk, "one")

    def led():
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads")

    one.partition.led = led
    assert outcomes(disk, [one], [(one, 3)]) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert (one.log.start, disk.done) == (2, [])


@pytest.mark.parametrize("paused_after", [1, 2, 3])
def test_a_role_that_ends_in_a_pause_has_deleted_nothing(paused_after):
    """The next leader still has the records: the client is to ask that one."""
    disk = Disk()
    one = hosted(disk, "one")
    steps = delete_records(disk, SimpleNamespace(partitions=lambda: [one]), [(one, 3)])
    for _ in range(paused_after):
        next(steps)
    one.partition.led().ended = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads")
    (ended,) = to_the_end(steps)
    assert ended.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert disk.done in ([], ["wrote 1"])
