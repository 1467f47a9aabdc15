"""kill -9 while consumers commit: no acknowledged offset goes back, none appears without a commit."""

import random
import signal
import threading
import time

import pytest

from stratalog.client.admin import create_topic
from stratalog.client.client import BrokerTimeout, BrokerUnavailable, Client
from stratalog.client.groups import commit_offsets, committed_offsets
from stratalog.wire.errors import KafkaError
from stratalog.wire.topic import TopicPartition

GROUPS = ("a", "b", "c")
PARTITIONS = 4


class Committer:
    """A consumer that commits 1, 2, 3 ... for each partition of its group, and notes what was acknowledged."""

    def __init__(self, address: str, group: str) -> None:
        self.group = group
        self.sent = self.acknowledged = 0
        self.unexpected: list[BaseException] = []
        self._address = address
        self._ended = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended:
            try:
                with Client(self._address, 5) as client:
                    while not self._ended:
                        self.sent += 1
                        offsets = {TopicPartition("t", number): self.sent for number in range(PARTITIONS)}
                        commit_offsets(client, self.group, offsets)
                        self.acknowledged = self.sent
            except (BrokerUnavailable, BrokerTimeout):
                time.sleep(0.01)
            except KafkaError as error:
                if not error.retriable:
                    self.unexpected.append(error)
                    return

    def end(self) -> None:
        """Commit nothing more."""
        self._ended = True
        self._thread.join()

    def check(self, address: str) -> None:
        """All partitions of a commit are there together, the newest acknowledged one or one that was under way."""
        assert self.unexpected == []
        with Client(address) as client:
            found = {offset.offset for offset in committed_offsets(client, self.group).values()}
        assert len(found) == 1
        assert self.acknowledged <= found.pop() <= self.sent


def kill_and_check(serve_process, kills: int) -> None:
    dice = random.Random(kills)
    broker = serve_process()
    with Client(broker.address) as client:
        create_topic(client, "t", partition_count=PARTITIONS)
    for _ in range(kills):
        committers = [Committer(broker.address, group) for group in GROUPS]
        wanted = dice.randrange(5, 60)
        end = time.monotonic() + 60
        while min(one.acknowledged for one in committers) < wanted:
            assert time.monotonic() < end, (broker.errors(), [one.unexpected for one in committers])
            time.sleep(0.002)
        broker.end(signal.SIGKILL)
        for one in committers:
            one.end()
        broker.start()
        for one in committers:
            one.check(broker.address)
    assert broker.end(signal.SIGTERM) == 0


@pytest.mark.story
def test_two_kills_lose_no_offset(serve_process):
    """After each kill every group is where it was last told to be."""
    kill_and_check(serve_process, 2)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_fifty_kills_lose_no_offset(serve_process):
    """The same, fifty times over the same files."""
    kill_and_check(serve_process, 50)
