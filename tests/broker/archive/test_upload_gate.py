"""The bound on uploads under way."""

import pytest

from stratalog.broker.archive.upload_gate import UPLOADS_MAX, UploadGate
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages import commands
from stratalog.tier.objects.segment_object import SegmentRequest

PARTITION = PartitionId("t", bytes(16), 0)
FAILED = commands.FailedReport("no", retriable=True)


class Worker:
    """Keeps what was submitted until the test answers it."""

    def __init__(self):
        self.commands, self.sent = [], []
        self.gate = UploadGate(self.submit, bytes_max=100)
        self.answers = []

    def submit(self, command, answered):
        self.commands.append((command, answered))
        if isinstance(command, commands.Upload):
            self.sent.append(command.request.base)

    def upload(self, number, size, epoch=0, partition=PARTITION):
        request = SegmentRequest(partition, bytes(16), number, number + 1, epoch, [bytes(size)])
        self.gate(commands.Upload(request, Claimant(0, epoch, bytes(16))), lambda _: self.answers.append(number))

    def running(self):
        return [command.request.base for command, _ in self.commands]

    def finish(self):
        _, answered = self.commands.pop(0)
        answered(FAILED)


@pytest.fixture
def worker():
    return Worker()


def test_uploads_run_a_few_at_a_time_in_their_order(worker):
    """The next begins when one has ended, however that went."""
    for number in range(UPLOADS_MAX + 2):
        worker.upload(number, 10)
    assert worker.running() == [one.request.base for one in worker.gate.running] == list(range(UPLOADS_MAX))
    assert worker.gate.waiting_count == 2
    worker.finish()
    assert worker.running() == list(range(1, UPLOADS_MAX + 1))
    assert worker.answers == [0]


def test_large_uploads_run_alone(worker):
    """Together they never hold more than the buffer of one large upload; one larger than that still runs."""
    worker.upload(0, 60)
    worker.upload(1, 60)
    worker.upload(2, 1000)
    assert worker.running() == [0]
    worker.finish()
    assert worker.running() == [1]
    worker.finish()
    assert worker.running() == [2]


def test_other_commands_never_wait(worker):
    """Claims, commits and chunk fills pass by."""
    for number in range(UPLOADS_MAX + 1):
        worker.upload(number, 10)
    worker.gate(commands.ReadManifest(PARTITION), worker.answers.append)
    assert isinstance(worker.commands[-1][0], commands.ReadManifest)


def test_an_answer_that_raises_does_not_stop_the_queue(worker):
    """Uploads that wait behind it are carried out all the same."""
    request = SegmentRequest(PARTITION, bytes(16), 9, 10, 0, [bytes(100)])
    worker.gate(commands.Upload(request, Claimant(0, 0, bytes(16))), lambda _: 1 / 0)
    worker.upload(1, 10)
    with pytest.raises(ZeroDivisionError):
        worker.finish()
    assert worker.running() == [1]


def test_uploads_that_wait_for_a_leadership_that_has_ended_are_not_sent(worker):
    """Thousands of partitions may lose their leader at once: gigabytes would go up that none can commit, before all others."""
    other = PARTITION._replace(partition=1)
    for number in range(UPLOADS_MAX):
        worker.upload(number, 10)
    worker.upload(3, 10)
    worker.upload(4, 10, epoch=1)
    worker.upload(5, 10, partition=other)
    worker.upload(6, 10)
    worker.gate.end(PARTITION, 0)
    worker.upload(7, 10)
    while worker.commands:
        worker.finish()
    assert sorted(worker.answers) == list(range(8))
    assert worker.sent == [0, 1, 2, 4, 5, 7]
    assert not worker.gate._ended
    worker.gate.end(PARTITION, 0)
    assert not worker.gate._ended
