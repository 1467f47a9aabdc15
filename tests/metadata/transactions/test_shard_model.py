"""Random lives of producers, against what a client may conclude from the answers it got.

The model knows nothing of states. It keeps the answers to the producer of every transaction, and for every partition
which transaction is open there; markers end transactions in partitions as the log of a partition would.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from stratalog.metadata.coordination import Now, Producer
from stratalog.metadata.transactions.events import MarkersWritten
from stratalog.metadata.transactions.transaction import EPOCH_MAX
from stratalog.wire.errors import ErrorCode, KafkaError

from .conftest import Desk

CLIENTS = st.integers(0, 2)
COUNTS = st.integers(1, 3)


@dataclass
class Attempt:
    """One transaction as its producer sees it."""

    asked: bool | None = None
    told: bool | None = None
    wrote: set[int] = field(default_factory=set)
    ends: dict[int, bool] = field(default_factory=dict)


@dataclass
class Client:
    """A producer; two of them share each transactional id."""

    tid: str
    version: int
    producer: Producer | None = None
    attempt: Attempt = field(default_factory=Attempt)
    busy: bool = False


class Lives(RuleBasedStateMachine):
    """Rules are requests, progress of the log, markers, time and reloads, in any order."""

    def __init__(self):
        super().__init__()
        self.desk = Desk(patience_ms=50, abort_timed_out_interval_ms=10)
        self.desk.on_answer = self.answered
        self.clients = [Client("a", 2), Client("a", 0), Client("b", 2)]
        self.attempts = []
        self.open_in = {number: {} for number in range(3)}
        self.last_epoch = {number: {} for number in range(3)}
        self.newest = {}
        self.requests = 0

    def token(self, kind, client, *details):
        self.requests += 1
        client.busy = True
        return (self.requests, kind, id(client), *details)

    # -- what clients ask

    def free(self, number):
        client = self.clients[number]
        return None if client.busy else client

    @rule(number=CLIENTS, goes_on=st.booleans())
    def init(self, number, goes_on):
        """A start, or going on after an error."""
        client = self.free(number)
        if client is not None:
            expected = client.producer if goes_on else None
            token = self.token("init", client)
            self.desk.take(self.desk.shard.step(_init(token, client, expected), self.desk.now))

    @rule(number=CLIENTS, partition=st.integers(0, 2))
    def add(self, number, partition):
        """One more partition, unless the end was asked for."""
        client = self.free(number)
        if client is not None and client.producer is not None and client.attempt.asked is None:
            token = self.token("add", client, partition)
            self.desk.add(client.producer, str(partition), token=token, tid=client.tid, version=client.version)

    @rule(number=CLIENTS, partitions=st.sets(st.integers(0, 2), min_size=1))
    def work(self, number, partitions):
        """A producer comes as far as it can without being disturbed."""
        client = self.clients[number]
        self.desk.commit()
        if client.producer is None:
            self.init(number, goes_on=False)
            self.desk.commit()
        for partition in sorted(partitions):
            self.add(number, partition)
            self.desk.commit()

    @rule(number=CLIENTS, commit=st.booleans())
    def end(self, number, commit):
        """The end, or the same again if the answer was lost."""
        client = self.free(number)
        if client is not None and client.producer is not None:
            if client.attempt.asked is None:
                client.attempt.asked = commit
            token = self.token("end", client, client.attempt.asked)
            self.desk.end(
                client.producer, commit=client.attempt.asked, token=token, tid=client.tid, version=client.version
            )

    # -- answers

    def answered(self, token, answer):
        _, kind, owner, *details = token
        client = next(one for one in self.clients if id(one) == owner)
        client.busy = False
        code = answer.code if isinstance(answer, KafkaError) else answer.error_code
        if code:
            self.refused(client, kind, ErrorCode(code))
        elif kind == "init":
            client.producer = Producer(answer.producer_id, answer.producer_epoch)
            self.fresh(client)
        elif kind == "add":
            self.write(client, *details)
        else:
            client.attempt.told = details[0]
            if client.version >= 2:
                client.producer = Producer(answer.producer_id, answer.producer_epoch)
            self.fresh(client)

    def fresh(self, client):
        client.attempt = Attempt()
        self.attempts.append(client.attempt)
        newest = self.newest.get(client.tid)
        if newest is not None and client.version >= 2:
            assert (
                newest.producer_id != client.producer.producer_id
                or newest.producer_epoch <= client.producer.producer_epoch
            )
        self.newest[client.tid] = client.producer

    def refused(self, client, kind, code):
        """A producer that is fenced must start again; the others try again."""
        if code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE):
            if kind == "add":
                assert self.newest[client.tid] != client.producer or self.aborted_behind(client)
            client.producer = None
            client.attempt = Attempt()
        else:
            assert code in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def aborted_behind(self, client):
        """Whether the coordinator has taken the epoch away (time-out, or another producer that is starting)."""
        return self.desk.shard.transactions[client.tid].producer != client.producer

    def write(self, client, partition):
        """The data: taken by the partition unless a marker has raised the epoch."""
        producer_id, epoch = client.producer
        if self.last_epoch[partition].get(producer_id, -1) > epoch:
            return
        self.last_epoch[partition][producer_id] = epoch
        held = self.open_in[partition].setdefault(producer_id, client.attempt)
        assert held is client.attempt, "two transactions of one producer are open in a partition"
        client.attempt.wrote.add(partition)

    # -- the world

    @rule(count=COUNTS | st.just(99))
    def commit(self, count):
        """The log goes on."""
        for _ in range(count):
            self.desk.commit(1)

    @precondition(lambda self: self.desk.markers)
    @rule(data=st.data(), lost=st.booleans())
    def write_marker(self, data, lost):
        """One partition gets one of the markers; if the report of it is lost, it will get it again."""
        marker = data.draw(st.sampled_from(self.desk.markers))
        partition = data.draw(st.sampled_from(sorted(marker.partitions)))
        self.ends(marker, partition.partition)
        if not lost:
            self.report(marker, partition)

    def report(self, marker, partition):
        self.desk.markers.remove(marker)
        if marker.partitions != {partition}:
            self.desk.markers.append(replace(marker, partitions=marker.partitions - {partition}))
        self.desk.do(MarkersWritten(marker.transactional_id, marker.producer, frozenset([partition])))

    def ends(self, marker, partition):
        producer_id, epoch = marker.producer
        last = self.last_epoch[partition].get(producer_id, -1)
        if epoch < last or (
            marker.transaction_version >= 2 and epoch == last and producer_id in self.open_in[partition]
        ):
            return  # a partition refuses it: it belongs to an end before
        self.last_epoch[partition][producer_id] = epoch
        attempt = self.open_in[partition].pop(producer_id, None)
        if attempt is None:
            return
        attempt.ends[partition] = marker.commit
        assert not marker.commit or attempt.asked, "committed without having been asked to"
        assert attempt.told in (None, marker.commit), "ended otherwise than told"
        assert len(set(attempt.ends.values())) == 1, "committed here, aborted there"

    @rule(milliseconds=st.sampled_from([1, 20, 60, 30_000]))
    def wait(self, milliseconds):
        """Patience and transactions run out."""
        self.desk.wait(milliseconds)

    @rule(jump_ms=st.sampled_from([0, 0, 0, -3_600_000, 3_600_000]))
    def reload(self, jump_ms):
        """The process is killed; the clock may have jumped meanwhile."""
        self.desk.now = Now(self.desk.now.monotonic_ms, self.desk.now.wall_ms + jump_ms)
        self.desk.reload()

    @rule(tid=st.sampled_from("ab"))
    def use_up_epochs(self, tid):
        """Nearly all epochs of a producer are used up, where no request is under way."""
        transaction = self.desk.shard.transactions.get(tid)
        quiet = not self.desk.pending and not any(one.busy for one in self.clients if one.tid == tid)
        if transaction is None or not quiet or not transaction.status.resting:
            return
        transaction.producer_epoch = max(transaction.producer_epoch, EPOCH_MAX - 3)
        self.desk.log.append(transaction.record())
        for client in self.clients:
            if client.tid == tid:
                client.producer, client.attempt = None, Attempt()
        self.newest.pop(tid, None)

    @invariant()
    def a_reload_would_find_the_same(self):
        """The log holds all there is, apart from what no log of Kafka's holds."""
        if self.desk.pending:
            return
        other = Desk()
        other.log = self.desk.log
        other.reload()
        for tid, transaction in self.desk.shard.transactions.items():
            found = other.shard.transactions[tid]
            assert found.record()[1][2:28] == transaction.record()[1][2:28] or transaction.status.ending
            assert (found.producer, found.status, found.promised) == (
                transaction.producer,
                transaction.status,
                transaction.promised,
            )

    def teardown(self):
        """Left alone, every transaction ends, and as its answer said."""
        for _ in range(6):
            self.desk.commit()
            while self.desk.markers:
                marker = self.desk.markers[-1]
                partition = min(marker.partitions)
                self.ends(marker, partition.partition)
                self.report(marker, partition)
                self.desk.commit()
            self.desk.wait(60_000)
        assert not any(self.open_in.values()), "a transaction hangs"
        for attempt in self.attempts:
            if attempt.told is not None:
                assert attempt.ends == dict.fromkeys(attempt.wrote, attempt.told)


def _init(token, client, expected):
    from stratalog.metadata.transactions.events import InitProducer

    return InitProducer(token, client.tid, 40_000, expected)


TestLives = Lives.TestCase
TestLives.settings = settings(stateful_step_count=40)
