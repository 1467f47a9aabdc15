"""Knowledge of the clients: every record sent, acknowledged or seen, by partition. Contradictions raise."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from stratalog.wire.topic import Uuid

__all__ = ["Model", "Outcome", "PartitionModel", "Sent", "State", "TopicModel", "Transaction", "Violation"]


class Violation(AssertionError):
    """An invariant does not hold."""


class State(Enum):
    """A producer's knowledge of a record."""

    UNKNOWN = "unknown"
    ACKNOWLEDGED = "acknowledged"


class Outcome(Enum):
    """The outcome of a transaction, as far as its producer knows."""

    OPEN = "open"
    ENDING = "ending"
    """To commit was asked for, and not answered."""
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True, eq=False)
class Transaction:
    """One transaction of a producer."""

    name: str
    outcome: Outcome = Outcome.OPEN
    values: list[tuple[PartitionModel, bytes]] = field(default_factory=list)
    """Records that it wrote, with acknowledgement."""
    seen: bool = False
    """A reader of committed records has seen some of it."""

    def see(self) -> None:
        """Such a reader sees a record of it. Raises `Violation` if none may."""
        self.seen = True
        if self.outcome in {Outcome.OPEN, Outcome.ABORTED}:
            raise Violation(f"{self.name} is {self.outcome.value}, and a reader sees it as committed")

    def end(self, outcome: Outcome) -> None:
        """Its producer learns what became of it. Raises `Violation` if a reader saw otherwise."""
        self.outcome = outcome
        if self.seen and outcome is Outcome.ABORTED:
            raise Violation(f"{self.name} is aborted, and a reader has seen it as committed")


@dataclass(slots=True)
class Sent:
    """One record as its producer sees it; ``number`` counts up per producer and partition."""

    producer: str
    number: int
    timestamp_ms: int
    once: bool
    """Its producer is idempotent: it may be in the log once, and behind its predecessors."""
    key: bytes | None = None
    transaction: Transaction | None = None
    attempts: int = 0
    state: State = State.UNKNOWN


@dataclass(slots=True, eq=False)
class PartitionModel:
    """One partition of one life of a topic."""

    topic: TopicModel
    number: int
    sent: dict[bytes, Sent] = field(default_factory=dict)
    known: dict[int, bytes] = field(default_factory=dict)
    """Values by offset that a client was promised or shown."""
    places: dict[bytes, int] = field(default_factory=dict)
    last_place: dict[str, tuple[int, int]] = field(default_factory=dict)
    start: int = 0
    """The largest log start that a client got."""
    end: int = 0
    """The largest high watermark that a client got, or the one that follows from acknowledgements."""
    promised_start: int = 0
    """The largest log start that was answered to DeleteRecords: it is on disk."""
    start_written_down: bool = True
    """False after a log start could not be made durable: it may be lost with the next stop."""
    deleted_to: int = 0
    """Where DeleteRecords was asked to move the log start at most."""
    unclean_epoch: int = -1
    """The leader epoch that the last unclean election began; -1 if there was none."""
    written_in: dict[bytes, int] = field(default_factory=dict)
    """The leader epoch in which a value was written that was acknowledged, as far as this was found out."""
    by_epoch: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """Values by offset and leader epoch: no election of any kind changes them."""

    def __str__(self) -> str:
        return f"{self.topic.name}-{self.number}"

    def acknowledged(self, base_offset: int, values: list[bytes]) -> None:
        """A producer was acknowledged its batch at ``base_offset``; -1 if the answer does not name the offset."""
        for at, value in enumerate(values):
            self.sent[value].state = State.ACKNOWLEDGED
            if base_offset >= 0:
                self.at(base_offset + at, value, "acknowledged")
        if base_offset >= 0:
            self.end = max(self.end, base_offset + len(values))

    @property
    def may_lack_records(self) -> bool:
        """Whether a leader was elected that may have lacked records that were acknowledged."""
        return self.unclean_epoch >= 0

    def elected_uncleanly(self, leader_epoch: int) -> None:
        """Such a leader was elected. Its log is the truth from now on, wherever it ends."""
        self.unclean_epoch = leader_epoch

    @property
    def promised_end(self) -> int:
        """Where the log has to end at least."""
        return 0 if self.may_lack_records else self.end

    def at(self, offset: int, value: bytes, how: str, leader_epoch: int = -1) -> None:
        """A value was acknowledged or seen at an offset, in a batch of this leader epoch; -1 where that is not known."""
        there = value if leader_epoch < 0 else self.by_epoch.setdefault((offset, leader_epoch), value)
        if there != value:
            raise Violation(
                f"{self}: offset {offset} held {_show(there)} in leader epoch {leader_epoch}, now {_show(value)} is {how} there"
            )
        if self.may_lack_records and value in self.sent:
            self.known[offset] = value
            self.places[value] = offset
            return
        known = self.known.get(offset)
        if known is not None and known != value:
            raise Violation(f"{self}: offset {offset} held {_show(known)}, now {_show(value)} is {how} there")
        sent = self.sent.get(value)
        if sent is None:
            raise Violation(f"{self}: no producer sent {_show(value)}, which is {how} at offset {offset}")
        place = self.places.get(value)
        if place is not None and place != offset and (sent.once or sent.attempts == 1):
            raise Violation(
                f"{self}: {_show(value)} is {how} at offset {offset}, and was at {place}: it is there twice"
            )
        self.known[offset] = value
        self.places.setdefault(value, offset)

    def restarted(self, log_start: int) -> None:
        """The broker was started again, and the log begins here. Raises `Violation` if it had begun later.

        Without an archive retention alone promises nothing: what it removed last may come back.
        """
        kept = self.topic.tiered and self.start_written_down
        floor = self.start if kept else self.promised_start
        if log_start < floor:
            raise Violation(f"{self} starts at {log_start} after a restart, it had started at {floor}")
        self.start = min(self.start, log_start) if not kept else self.start
        self.start_written_down = True

    def told_start(self, log_start: int) -> None:
        """A client got a log start."""
        if not self.topic.replicated:
            self.start = max(self.start, log_start)

    def promise_start(self, log_start: int) -> None:
        """An answer to DeleteRecords named this log start."""
        self.start, self.promised_start = max(self.start, log_start), max(self.promised_start, log_start)

    def check_complete(self, first: int, records: list[tuple[int, bytes]], end: int) -> None:
        """The whole log was read, from the log start to the high watermark, batch by batch."""
        if end < self.promised_end:
            raise Violation(f"{self}: the high watermark is {end}, it was {self.end}: acknowledged records are gone")
        found = dict(records)
        if self.may_lack_records:
            self._check_kept(first, set(found.values()))
        elif not self.topic.compacted:
            for offset, value in self.known.items():
                if offset >= first and found.get(offset) != value:
                    raise Violation(
                        f"{self}: offset {offset} held {_show(value)}, now it holds {_show(found.get(offset))}"
                    )
        for value, sent in self.sent.items():
            if sent.state is State.ACKNOWLEDGED and value not in self.places and not self.may_lack_records:
                raise Violation(f"{self}: {_show(value)} of {sent.producer} was acknowledged and is nowhere")
        self.check_order(records)

    def _check_kept(self, first: int, there: set[bytes]) -> None:
        """Records of leaders from the last unclean election on are there. Raises `Violation`."""
        for value, sent in self.sent.items():
            is_promised = sent.state is State.ACKNOWLEDGED and self.written_in.get(value, -1) >= self.unclean_epoch
            if not is_promised or value in there or self.topic.compacted or self.places[value] < first:
                continue
            raise Violation(
                f"{self}: {_show(value)} was acknowledged at offset {self.places[value]} in leader epoch "
                f"{self.written_in[value]} and is gone; the last unclean election was in epoch {self.unclean_epoch}"
            )

    def check_committed(self, first: int, records: list[tuple[int, bytes]]) -> None:
        """The whole log was read as committed: transactions are there with all of their records, or with none."""
        shown = {value for _, value in records}
        if self.topic.compacted:
            self._check_latest(first, shown)
        for value, sent in self.sent.items():
            transaction, place = sent.transaction, self.places.get(value)
            if transaction is None or sent.state is not State.ACKNOWLEDGED or self.topic.compacted:
                continue
            if place is None or place < first:
                continue
            if (value in shown) != (transaction.outcome is Outcome.COMMITTED):
                which = "shown" if value in shown else "hidden"
                raise Violation(f"{self}: {_show(value)} is {which}, {transaction.name} {transaction.outcome.value}")

    def _check_latest(self, first: int, shown: set[bytes]) -> None:
        """Compaction leaves the last record of each key that counts."""
        if self.may_lack_records:
            return  # the last one of a key may have gone with the election, and is known to no one
        latest: dict[bytes, tuple[int, bytes]] = {}
        for offset, value in self.known.items():
            sent = self.sent[value]
            counts = sent.transaction is None or sent.transaction.outcome is Outcome.COMMITTED
            if counts and sent.key is not None and offset >= latest.get(sent.key, (first, b""))[0]:
                latest[sent.key] = (offset, value)
        for key, (offset, value) in latest.items():
            if value not in shown:
                raise Violation(f"{self}: {_show(value)} at {offset} is the last of key {key!r}, and is gone")

    def check_order(self, records: list[tuple[int, bytes]]) -> None:
        """Records of one idempotent producer lie in the order in which it sent them, each once."""
        last: dict[str, int] = {}
        for offset, value in records:
            sent = self.sent[value]
            if not sent.once:
                continue
            if sent.number <= last.get(sent.producer, -1):
                raise Violation(
                    f"{self}: number {sent.number} of {sent.producer} lies at offset {offset}, behind number "
                    f"{last[sent.producer]}"
                )
            last[sent.producer] = sent.number


@dataclass(slots=True, eq=False)
class TopicModel:
    """One life of a topic. ``synced``: acknowledged means on disk. ``tiered``: it has an archive."""

    name: str
    topic_id: Uuid
    configs: dict[str, str]
    partitions: list[PartitionModel] = field(default_factory=list)
    deleting: bool = False
    """A client has asked for its deletion; from now on it may be gone."""
    replicated: bool = False
    """Several brokers have it. One that leads next may not have heard yet how far retention has gone."""
    archive_may_go: bool = False
    """Tiering is, or has been, switched off with its archive."""

    @property
    def compacted(self) -> bool:
        """Whether records go that later ones of their key replace."""
        return "compact" in self.configs.get("cleanup.policy", "")

    @property
    def tiered(self) -> bool:
        """Whether it has an archive."""
        return self.configs.get("remote.storage.enable") == "true"

    @property
    def retention_ms(self) -> int:
        """How long records are kept at least; -1 for ever."""
        return int(self.configs.get("retention.ms", "-1"))


class Model:
    """Every topic there is."""

    def __init__(self) -> None:
        self.topics: dict[Uuid, TopicModel] = {}
        self.transactions: list[Transaction] = []

    def add(self, name: str, topic_id: Uuid, partition_count: int, configs: dict[str, str]) -> TopicModel:
        """A topic was created."""
        topic = TopicModel(name, topic_id, dict(configs))
        topic.partitions = [PartitionModel(topic, number) for number in range(partition_count)]
        self.topics[topic_id] = topic
        return topic

    def living(self) -> list[TopicModel]:
        """Those without a request to delete them."""
        return [topic for topic in self.topics.values() if not topic.deleting]


def _show(value: bytes | None) -> str:
    """A value as messages name it: its producer and number."""
    return "nothing" if value is None else value.rstrip(b".").decode()
