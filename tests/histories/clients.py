"""Clients of a random history: they send a batch again until it is answered; a coordinator ends their transactions."""

from __future__ import annotations

from stratalog.broker.replicas.leader import Leader
from stratalog.broker.replicas.waiting_append import CallingBack
from stratalog.hot.log.log import AppendInfo
from stratalog.wire.batch import Record, build_batch, build_control_batch, iter_records, read_header
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.control import ControlType, EndTxnMarker, encode_record
from tests.histories.oracle import ABORT, COMMIT, Rec, Wrong


def append_marker(leader, marker, version, acknowledge, shipped=Leader.append_marker) -> None:
    """As shipped; the truth hears of it."""
    node = leader._partition.node
    before = node.log.log_end_offset
    header, record = read_header(marker), next(iter_records(marker))
    shipped(leader, marker, version, acknowledge)
    if node.log.log_end_offset > before:
        kind = COMMIT if record.key[3] else ABORT
        node.full[before] = Rec(
            before, leader.epoch, None, None, record.timestamp_ms, header.producer_id, header.producer_epoch, -1, True, before, kind
        )  # fmt: skip


class Client:
    """A producer: one batch at a time, sent again until it is answered; its transactions are ended by a coordinator."""

    def __init__(self, world, number: int, *, transactional: bool) -> None:
        self.world, self.transactional = world, transactional
        self.producer, self.epoch, self.sequence = 1000 + 100 * number, 0, 0
        self.pending = None  # (records, base sequence)
        self.open, self.first_offset = False, -1
        self.marker = None  # kind that the coordinator has decided upon
        self.fenced = False
        self.waiting = False

    def begin(self, offset: int) -> None:
        """A batch is about to be sent, to be appended at an offset: it begins a transaction if none is open."""
        if self.transactional and not self.open:
            self.open, self.first_offset = True, offset

    def renew(self) -> None:
        """Data was lost, by right: begin as another producer."""
        self.producer += 1
        self.epoch = self.sequence = 0
        self.pending = self.marker = None
        self.open = self.fenced = False


class Clients:
    """The part of a world that writes."""

    def serving(self):
        node = self.led
        if node is None or not node.is_up or node.partition.leader is None or node.role_epoch != self.epoch:
            return None
        return node if node.partition.held_back is None else None

    def produce(self) -> None:
        node, dice = self.serving(), self.dice
        client = dice.choice(self.clients)
        if node is None or client.waiting:
            return
        if client.marker is not None:
            self.mark(node, client)
            return
        if client.pending is None:
            if client.open and dice.random() < 0.35:
                client.marker = dice.choice([COMMIT, ABORT])
                self.mark(node, client)
                return
            client.pending = self.new_records(), client.sequence
        elif client.open and dice.random() < 0.1:  # the coordinator gives its transaction up, and fences it
            client.marker, client.fenced = ABORT, True
            client.pending = None
            self.mark(node, client)
            return
        records, sequence = client.pending
        batch = build_batch(
            records, producer_id=client.producer, producer_epoch=client.epoch, base_sequence=sequence,
            transactional=client.transactional,
        )  # fmt: skip
        client.waiting = True
        sent = (client.producer, client.epoch)

        def done(outcome) -> None:
            client.waiting = False
            if (client.producer, client.epoch) != sent or client.pending is None or client.pending[1] != sequence:
                return
            if isinstance(outcome, AppendInfo):
                client.sequence, client.pending = sequence + len(records), None
                self.acknowledge(records, outcome)
            else:
                self.refused(client, outcome)

        before = node.log.log_end_offset
        self.log("produce", client.producer, "epoch", client.epoch, "seq", sequence, [r.key for r in records])
        client.begin(before)
        leader = node.partition.leader
        waiting = CallingBack(done, 10**9)
        begins = client.transactional and not node.log.producer_state.is_open(client.producer)
        version = begins * self.transaction_version
        leader.append(memoryview(batch), -1, None, waiting, ready=True, transaction_version=version)
        for number in range(before, node.log.log_end_offset):
            record = records[number - before]
            node.full[number] = Rec(
                number, self.epoch, record.key, record.value, record.timestamp_ms, client.producer, client.epoch,
                sequence + number - before, client.transactional, before,
            )  # fmt: skip

    def new_records(self) -> list[Record]:
        dice, made = self.dice, []
        for number in range(dice.choice([1, 1, 2, 3])):
            self.values += 1
            keyless = "compact" not in self.policy and dice.random() < 0.2
            key = None if keyless else b"k%d" % dice.randrange(self.keys)
            value = None if dice.random() < self.deleted_share and key is not None else b"v%d" % self.values
            stamp = self.now_ms + dice.randrange(-300, 300)
            made.append(Record(number, stamp, key, value))
        return made

    def mark(self, node, client: Client) -> None:
        """The coordinator ends a transaction; it asks until the marker is committed."""
        client.waiting = True
        kind, fenced = client.marker, client.fenced
        epoch = client.epoch + (1 if fenced or self.transaction_version == 2 else 0)
        producer = client.producer
        batch = build_control_batch(
            ControlType.COMMIT if kind == COMMIT else ControlType.ABORT, encode_record(EndTxnMarker(coordinator_epoch=0)),
            offset=0, timestamp_ms=self.now_ms, leader_epoch=-1, producer_id=producer, producer_epoch=epoch, transactional=True,
        )  # fmt: skip

        def done(outcome) -> None:
            client.waiting = False
            if client.producer != producer:
                return
            if isinstance(outcome, AppendInfo):
                client.marker, client.open, client.fenced = None, False, False
                if epoch != client.epoch:
                    client.epoch, client.sequence = epoch, 0
            else:
                self.refused(client, outcome)

        self.log("marker", kind, producer, "epoch", epoch)
        node.partition.leader.append_marker(batch, self.transaction_version, done)

    def refused(self, client: Client, error: KafkaError) -> None:
        retriable = {
            ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.FENCED_LEADER_EPOCH,
        }  # fmt: skip
        if error.code in retriable:
            return
        if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self.aborts(client, error):
            return
        if self.strict:
            raise Wrong(f"a client is refused for good: {error}")
        self.log("  renewed", client.producer, error.code.name)
        client.renew()

    def aborts(self, client: Client, error: KafkaError) -> bool:
        """Whether an answer out of order ends the transaction alone. Raises `Wrong` where the log could not know that."""
        log = self.led.log
        if client.transactional and self.transaction_version == 2:
            if client.first_offset >= log.log_start_offset:
                return False
            # It has an epoch of its own, and began in front of the log start: this copy knows none of it.
            client.marker, client.pending = ABORT, None
            self.count["began in front of the log start"] += 1
            return True
        entry = log.producer_state.entries.get(client.producer)
        if entry is None or (entry.producer_epoch, entry.last_sequence) == (client.epoch, -1):
            raise Wrong(f"a log that knows no batch of a producer refuses one: {error}")
        return False

    def acknowledge(self, records, info: AppendInfo) -> None:
        for offset, record in enumerate(records, info.base_offset):
            if record.value is not None and self.acked.setdefault(record.value, offset) != offset:
                raise Wrong(f"{record.value} acknowledged at {self.acked[record.value]} and at {offset}")
        self.count["acked"] += 1
