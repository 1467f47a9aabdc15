"""A desk at which a transaction shard works: its log, its clock, and everybody it speaks with."""

from collections import deque

import pytest

from stratalog.metadata.coordination import Now, Producer, Reply, Write
from stratalog.metadata.transactions.events import (
    AddPartitions,
    AllocateProducerId,
    EndTransaction,
    InitProducer,
    MarkersWritten,
    ProducerIdAllocated,
    SendMarkers,
    TransactionSettings,
)
from stratalog.metadata.transactions.shard import TransactionShard
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from stratalog.wire.topic import TopicPartition

LOST = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Desk:
    """Drives one shard by hand: what it writes is committed when the test says so."""

    def __init__(self, *, patience_ms=0, **settings):
        self.settings = TransactionSettings(patience_ms=patience_ms, **settings)
        self.now = Now(1_000, 1_700_000_000_000)
        self.log = []
        self.pending = deque()
        self.answers = {}
        self.markers = []
        self.asked_ids = []
        self.ids = iter(range(100, 1_000_000))
        self.gives_ids = True
        self.on_answer = lambda token, answer: None
        self.shard = TransactionShard(self.settings)
        self.take(self.shard.loaded(self.now))

    # -- carrying out

    def take(self, actions):
        for action in actions:
            if isinstance(action, Write):
                self.pending.append((action, []))
            elif isinstance(action, Reply):
                if action.durable and self.pending:
                    self.pending[-1][1].append(action)
                else:
                    self.answer(action.token, action.response)
            elif isinstance(action, SendMarkers):
                self.markers.append(action)
            else:
                assert isinstance(action, AllocateProducerId)
                if self.gives_ids:
                    self.do(ProducerIdAllocated(action, next(self.ids)))
                else:
                    self.asked_ids.append(action)

    def answer(self, token, response):
        assert token not in self.answers, f"{token} was answered twice"
        self.answers[token] = response
        self.on_answer(token, response)

    def do(self, event):
        self.take(self.shard.step(event, self.now))

    def commit(self, count=None):
        """The first writes, or all and what follows from them, are committed."""
        while self.pending and count != 0:
            write, late = self.pending.popleft()
            self.log += write.records
            for reply in (*write.replies, *late):
                self.answer(reply.token, reply.response)
            for event in write.on_committed:
                self.do(event)
            count = None if count is None else count - 1

    def mark(self):
        """Every marker that was asked for is written, and that is committed."""
        while self.markers or self.pending:
            self.commit()
            asked, self.markers = self.markers, []
            for one in asked:
                self.do(MarkersWritten(one.transactional_id, one.producer, one.partitions))

    def reload(self):
        """The process ends and another one reads the log; what was not committed never was."""
        lost = [reply.token for write, late in self.pending for reply in (*write.replies, *late)]
        lost += self.shard.parked()
        self.pending.clear()
        self.markers, self.asked_ids = [], []
        for token in lost:
            self.answer(token, LOST)
        self.shard = TransactionShard(self.settings)
        for offset, record in enumerate(self.log):
            self.shard.replay(record.key, record.value, offset=offset, producer=None)
        self.take(self.shard.loaded(self.now))

    def wait(self, milliseconds):
        """Time passes."""
        self.now = Now(self.now.monotonic_ms + milliseconds, self.now.wall_ms + milliseconds)
        deadline = self.shard.deadline()
        if deadline is not None and deadline <= self.now.monotonic_ms:
            self.take(self.shard.due(self.now))

    # -- requests in short

    def init(self, token="init", tid="x", timeout_ms=60_000, expected=None, ids_from=0):
        self.do(InitProducer(token, tid, timeout_ms, expected, ids_from))
        self.commit()
        return self.answers.get(token)

    def start(self, tid="x", token=None):
        """A producer that has its id."""
        answer = self.init(token or f"start {tid} {len(self.answers)}", tid)
        return Producer(answer.producer_id, answer.producer_epoch)

    def add(self, producer, *names, token="add", tid="x", version=2):
        partitions = frozenset(TopicPartition("t", int(name)) for name in names)
        done = AddOffsetsToTxnResponse(error_code=0)
        self.do(AddPartitions(token, tid, producer, partitions, version, done))
        return self.answers.get(token)

    def end(self, producer, *, commit=True, token="end", tid="x", version=2):
        self.do(EndTransaction(token, tid, producer, commit, version))
        return self.answers.get(token)

    def status(self, tid="x"):
        return self.shard.transactions[tid].status.title

    def code(self, token):
        answer = self.answers[token]
        return answer.code if isinstance(answer, KafkaError) else ErrorCode(answer.error_code)


@pytest.fixture
def desk():
    """``desk(**settings)``: a new one; a request never waits unless ``patience_ms`` says so."""
    return Desk
