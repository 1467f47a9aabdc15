"""The order of fills, and how many run at once."""

from __future__ import annotations

import pytest

from stratalog.broker.cold.fill_gate import FILLS_MAX, FillGate
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.messages.commands import FillChunks
from stratalog.tier.messages.reports import ChunksFilled, FailedReport
from stratalog.tier.reading.remote_log import ChunkId

PARTITION = PartitionId("t", bytes(16), 0)


def chunk(number):
    """The id of one chunk."""
    return ChunkId(bytes(16), number)


class Worker:
    """Keeps what was submitted until the test answers it."""

    def __init__(self):
        self.commands = []
        self.answers = []
        self.gate = FillGate(lambda command, answered: self.commands.append((command, answered)))

    def fill(self, *numbers, ahead=False):
        command = FillChunks(PARTITION, str(numbers[0]), ())
        self.gate.fill(command, self.answers.append, [chunk(number) for number in numbers], ahead=ahead)

    def running(self):
        return [int(command.key) for command, _ in self.commands]

    def finish(self, report=None):
        command, answered = self.commands.pop(0)
        answered(report or ChunksFilled(command.key, ()))


@pytest.fixture
def worker():
    """One whose threads are all busy."""
    worker = Worker()
    for number in range(100, 100 + FILLS_MAX):
        worker.fill(number)
    return worker


def test_a_few_run_at_once_in_their_order(worker):
    """The next begins when one has ended, however that went."""
    worker.fill(1)
    worker.fill(2)
    assert worker.running() == list(range(100, 100 + FILLS_MAX))
    assert len(worker.gate) == 2
    worker.finish(FailedReport("no", retriable=True))
    worker.finish()
    assert worker.running()[-2:] == [1, 2]
    assert len(worker.answers) == 2
    assert len(worker.gate) == 0


def test_waited_for_chunks_go_before_read_ahead(worker):
    """A chunk that was asked for last, but is waited for, is fetched before the read-ahead."""
    worker.fill(1, 2, 3, ahead=True)
    worker.fill(4, ahead=True)
    worker.fill(5)
    for _ in range(3):
        worker.finish()
    assert worker.running()[-3:] == [5, 1, 4]


def test_a_reader_that_has_caught_up_hurries_its_chunk(worker):
    """With its neighbours of the same GET, behind what others wait for already; once is enough."""
    worker.fill(1, ahead=True)
    worker.fill(2, 3, 4, ahead=True)
    worker.fill(5)
    worker.gate.hurry(chunk(3))
    worker.gate.hurry(chunk(4))
    worker.gate.hurry(chunk(5))
    worker.gate.hurry(chunk(100))
    for _ in range(3):
        worker.finish()
    assert worker.running()[-3:] == [5, 2, 1]


def test_an_answer_that_asks_for_more_waits_like_the_others(worker):
    """It may come inside the answer of another."""
    asked = []

    def answered(report):
        asked.append(report)
        worker.fill(7)

    worker.gate.fill(FillChunks(PARTITION, "6", ()), answered, [chunk(6)], ahead=False)
    worker.fill(8)
    for _ in range(FILLS_MAX):
        worker.finish()
    worker.finish()
    assert len(asked) == 1
    assert sorted(worker.running()) == [7, 8]


def test_a_passing_fetch_takes_a_place_but_no_turn(worker):
    """While all places are taken, or another fetch waits, it may not; waiting fetches begin when it has ended."""
    assert not worker.gate.pass_by()
    worker.fill(1)
    worker.finish()
    worker.finish()
    assert worker.gate.pass_by()
    worker.fill(2)
    assert worker.running()[-1] == 1
    assert not worker.gate.pass_by()
    worker.gate.passed()
    assert worker.running()[-1] == 2
