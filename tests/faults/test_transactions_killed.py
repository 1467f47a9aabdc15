"""Exactly once: ``transfers -> balances`` while the broker is killed, at every step of a commit and of an abort.

Each transfer moves an amount between two accounts. A job reads transfers, writes both changes to ``balances`` and
commits how far it has read, all in one transaction; now and then it aborts one and does it again. After every
kill, a reader of committed records finds both changes of every transfer up to the committed offset, once.
"""

import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

from stratalog.client.admin import create_topic
from stratalog.client.client import Client
from stratalog.client.link import BrokerLink
from stratalog.client.records import fetch, visible_records
from stratalog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from stratalog.wire.topic import TopicPartition as Name

from .transfer_jobs import IN_ONE_TRANSACTION, PARTITIONS, Again, ClassicJob, NewJob, changes, committed_offset

HERE = Path(__file__).parent
TRANSFERS = 60_000
POINTS = (
    "producer begun, not written",
    "partition added, not written",
    "partition added, nothing appended",
    "first batch appended",
    "offsets pending, not written",
    "end decided, not written",
    "decision written, not answered",
    "decision answered, no marker",
    "a marker on its way",
    "a marker written, not reported",
    "a marker reported",
    "pending offsets decided",
    "end complete, not written",
    "anything of a coordinator written",
    "anything of a coordinator answered",
)
SETTINGS = (
    "transaction.state.log.num.partitions=1",
    "offsets.topic.num.partitions=1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=200",
    "group.initial.rebalance.delay.ms=0",
)


class Server:
    """A broker on one port and one directory, started again and again."""

    def __init__(self, home: Path) -> None:
        self.home = home
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.process: subprocess.Popen[str] | None = None

    def start(self, point: str | None = None, count: int = 0) -> None:
        """Start; at a point it will die."""
        command = [sys.executable, "-m", "stratalog"]
        if point is not None:
            command = [sys.executable, str(HERE / "broker_that_dies.py"), point, str(count)]
        command += ["serve", "--data", str(self.home / "data"), "--bucket", f"file://{self.home}/bucket"]
        command += ["--listen", self.address, "--http", "127.0.0.1:0"]
        for setting in SETTINGS:
            command += ["--set", setting]
        with (self.home / "stderr").open("a") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("ready ") and point is None:
            raise AssertionError((self.home / "stderr").read_text()[-3000:])

    def died(self, seconds: float) -> bool:
        """Whether it ends within this time."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
            self.process.stdout.close()
            return True
        return False

    def kill(self) -> None:
        """Now."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture
def server(tmp_path):
    """A server with both topics; ``transfers`` is filled."""
    one = Server(tmp_path)
    one.start()
    with Client(one.address) as client:
        create_topic(client, "transfers", partition_count=1, configs={})
        create_topic(client, "balances", partition_count=PARTITIONS, configs={})
    producer = Producer({"bootstrap.servers": one.address, "linger.ms": 20, "log_level": 0})
    for number in range(TRANSFERS):
        producer.produce("transfers", b"%d" % number, partition=0)
        if number % 5_000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0
    yield one
    one.kill()


def check(server) -> int:
    """The sums are exact; how many transfers were made."""
    link = BrokerLink("127.0.0.1", server.port, timeout_seconds=10)
    end = time.monotonic() + 30
    while True:
        try:
            done = max(committed_offset(link), 0)
            stable = [_ends(link, isolation) for isolation in (0, 1)]
            if stable[0] == stable[1]:
                break
        except Again:
            pass
        assert time.monotonic() < end, "a transaction hangs: the last stable offset does not move"
        time.sleep(0.05)
    link.close()
    found, balances = Counter(), Counter()
    with Client(server.address) as client:
        for partition in range(PARTITIONS):
            name, position = Name("balances", partition), 0
            while position < stable[0][partition]:
                (fetched,) = fetch(client, {name: position}, max_wait_ms=0)
                for next_offset, records in visible_records(fetched, position):
                    for record in records:
                        number, account, amount = (int(word) for word in record.value.split())
                        found[number, account, amount] += 1
                        balances[account] += amount
                    position = next_offset
    expected, sums = Counter(), Counter()
    for number in range(done):
        for _, account, amount in changes(number):
            expected[number, account, amount] += 1
            sums[account] += amount
    assert found == expected
    assert balances == sums
    assert sum(balances.values()) == 0
    return done


def _ends(link, isolation) -> list[int]:
    """The end of each partition of ``balances`` for readers of this isolation."""
    partitions = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(PARTITIONS)]
    topic = ListOffsetsTopic(name="balances", partitions=partitions)
    answer = link.call(ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic]), 5)
    return [one.offset for one in sorted(answer.topics[0].partitions, key=lambda one: one.partition_index)]


def wait_for_progress(job, commits, aborts=0) -> None:
    """Until the job has done so much more."""
    goal, end = (job.commits + commits, job.aborts + aborts), time.monotonic() + 60
    while (job.commits < goal[0] or job.aborts < goal[1]) and job.failure is None:
        assert time.monotonic() < end, "the job does not get on"
        time.sleep(0.005)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("kind", "points"),
    [
        pytest.param(ClassicJob, POINTS[::4], id="v1-some", marks=pytest.mark.story),
        pytest.param(NewJob, POINTS[2::4], id="v2-some", marks=pytest.mark.story),
        pytest.param(ClassicJob, POINTS, id="v1-all", marks=pytest.mark.slow),
        pytest.param(NewJob, POINTS, id="v2-all", marks=pytest.mark.slow),
    ],
)
def test_the_broker_dies_at_every_step(server, kind, points):
    """The sums of beginning, adding, committing and aborting are exact."""
    job = kind(server.address)
    dice = random.Random(7)
    wait_for_progress(job, 3, 1)
    server.kill()
    for point in points:
        server.start(point, 1 if point.startswith("producer") else dice.randrange(2, 9))
        job.starts_over = point.startswith("producer")
        assert server.died(45), f"it never came to {point!r}"
        assert server.process.returncode == -signal.SIGKILL, (server.home / "stderr").read_text()[-3000:]
    server.start()
    wait_for_progress(job, 5, 2)
    job.end()
    assert check(server) >= job.commits * IN_ONE_TRANSACTION - IN_ONE_TRANSACTION * len(points)
    assert job.commits > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", [ClassicJob, NewJob], ids=["v1", "v2"])
def test_a_hundred_kills_at_any_moment(server, kind):
    """Two hundred over both protocols."""
    job = kind(server.address)
    dice = random.Random(11)
    for _ in range(100):
        time.sleep(dice.random() * 0.6)
        server.kill()
        server.start()
    wait_for_progress(job, 5, 1)
    job.end()
    assert check(server) > 0
