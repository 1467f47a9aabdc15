"""Roles of a partition under random orders of events: appends, writes, syncs, epochs, failures, workers that answer late."""

import tempfile
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.replicas.waiting_append import CallingBack
from stratalog.hot.config import LONG_MAX, LogConfig
from stratalog.hot.log.log import AppendInfo
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.compression import Codec
from stratalog.wire.errors import ErrorCode, KafkaError
from tests.broker.replicas.leader_rig import EPOCH, Bench

NOW_MS = 1_700_000_000_000
GONE = ErrorCode.NOT_LEADER_OR_FOLLOWER


def new_batch(codec: Codec = Codec.NONE, *, late: bool = False, sequence: int | None = None) -> bytearray:
    """One record; ``late`` ones have a time that the log refuses."""
    numbered = {} if sequence is None else {"producer_id": 1, "producer_epoch": 0, "base_sequence": sequence}
    return build_batch([Record(0, NOW_MS + 9_000 * late, None, b"v")], codec=codec, **numbered)


class Reader:
    """A fetch that waits: woken, it looks at the partition and waits again."""

    def __init__(self, partition) -> None:
        self.partition = partition
        self.looked_at = None
        partition.watchers.add(self)
        self()

    def __call__(self) -> None:
        self.looked_at = self.partition.leader


class Story:
    """A partition, the role that took each append, and the rules that hold after each event."""

    def __init__(self, folder: str) -> None:
        self.it = Bench(folder, message_timestamp_after_max_ms=1000)
        self.epoch = EPOCH
        self.roles = [self.it.leader]
        self.taken: dict[str, object] = {}
        self.answers: dict[str, list] = {}
        self.acks: dict[str, int] = {}
        self.high_watermark = 0
        self.sequence = 0
        self.tickets: list = []
        self.readers = [Reader(self.it.partition)]

    # -- events ---------------------------------------------------------------------------------------------

    def append(self, kind: str, acks: int, role: int = -1) -> None:
        """Give a batch to the newest role, or to an earlier one."""
        leader = self.roles[role % len(self.roles)] if role >= 0 else self.it.partition.leader
        if leader is None:
            return
        if kind == "numbered":
            self.sequence += 1
        batch = {
            "plain": new_batch,
            "zstd": partial(new_batch, Codec.ZSTD),
            "late": partial(new_batch, late=True),
            "numbered": partial(new_batch, sequence=self.sequence - 1),
            "retry": partial(new_batch, sequence=max(self.sequence - 1, 0)),
        }[kind]()
        name = f"{len(self.taken)}"
        self.taken[name], self.answers[name], self.acks[name] = leader, [], acks
        leader.append(
            batch,
            acks,
            partial(self.it.released.append, name),
            CallingBack(partial(self.answered, name), self.it.now + 5),
        )

    def answered(self, name: str, outcome: AppendInfo | KafkaError) -> None:
        """Judge an answer at the moment it is given."""
        self.answers[name].append(outcome)
        if isinstance(outcome, KafkaError):
            return
        partition = self.it.partition
        assert self.taken[name] is partition.leader, "a role that is over has answered success"
        safe = partition.high_watermark if self.acks[name] == -1 else partition.log.written_offset
        assert outcome.last_offset < safe
        if not outcome.duplicate:
            assert partition.log.leader_epochs.epoch_for(outcome.base_offset) == partition.leader_epoch

    def write(self) -> None:
        """The end of a turn of the loop."""
        if self.it.disk.offline is None:
            self.it.disk.write()

    def begin_sync(self) -> None:
        """A sync starts, and may end under another role."""
        ticket = None if self.it.disk.offline else self.it.partition.log.begin_sync()
        if ticket is not None:
            self.tickets.append(ticket)

    def end_sync(self) -> None:
        """The sync that began first is over."""
        if self.tickets and self.it.disk.offline is None:
            ticket = self.tickets.pop(0)
            ticket.run()
            self.it.partition.log.finish_sync(ticket)
            self.it.partition.on_flushed()

    def refuse(self) -> None:
        """The disk is full."""
        if self.it.disk.offline is None:
            self.it.partition.log.discard_unwritten()
            self.it.partition.on_write_refused(OSError(28, "full"))

    def offline(self) -> None:
        """The disk is gone."""
        if self.it.disk.offline is None:
            self.it.disk.offline = OSError(5, "gone")
            self.it.partition.on_storage_failed(self.it.disk.offline)

    def rework(self, number: int, good: bool) -> None:
        """A worker answers, in any order."""
        if self.it.reworks:
            _, codec, _, done, *_ = self.it.reworks.pop(number % len(self.it.reworks))
            done(bytearray(new_batch(Codec.ZSTD if codec else Codec.NONE)) if good else RuntimeError("died"))

    def configure(self, relaxed: bool, codec: str) -> None:
        """The topic has new settings."""
        settings = {"message_timestamp_after_max_ms": 1000, "compression_type": codec}
        self.it.partition.update_config(LogConfig(flush_messages=LONG_MAX if relaxed else 1, **settings))

    def tick(self, seconds: int) -> None:
        """Time passes."""
        self.it.now += seconds
        self.it.partition.tick(self.it.now)

    def lead(self) -> None:
        """A new leader epoch."""
        self.epoch += 1
        self.it.lead(self.epoch)
        self.roles.append(self.it.leader)

    def resign(self) -> None:
        """Another broker leads."""
        self.it.partition.resign()

    # -- rules ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Hold after every event."""
        partition = self.it.partition
        assert partition.high_watermark >= self.high_watermark, "the high watermark went back"
        self.high_watermark = partition.high_watermark
        assert partition.high_watermark <= partition.log.log_end_offset
        for name, answers in self.answers.items():
            assert len(answers) <= 1, "acknowledged twice"
            if self.taken[name] is not partition.leader:
                assert len(answers) == 1, "an append waits in a role that is over"
        assert len(self.it.released) == len(set(self.it.released)), "a buffer was released twice"
        for role in self.roles:
            waits = role._written or role._committed or role._held or role._explained
            assert role is partition.leader or not waits, "a role that is over has waiters"
        assert all(reader.looked_at is partition.leader for reader in self.readers), "a reader was not woken"

    def end(self) -> None:
        """Every append was answered once, and every buffer released, when nothing is queued any more."""
        self.it.partition.close()
        while self.it.reworks:
            self.rework(0, good=len(self.it.reworks) % 2 == 0)
        self.write_rest()
        assert all(len(answers) == 1 for answers in self.answers.values())
        if self.it.disk.offline is None:
            assert sorted(self.it.released) == sorted(self.answers)

    def write_rest(self) -> None:
        """Records that were queued before the role ended are written, as the log is another owner's now."""
        if self.it.disk.offline is None:
            self.it.partition.log.write_queued()


EVENTS = st.one_of(
    st.tuples(
        st.just("append"),
        st.sampled_from(["plain", "plain", "zstd", "late", "numbered", "retry"]),
        st.sampled_from([1, -1]),
    ),
    st.tuples(st.just("append"), st.sampled_from(["plain", "zstd"]), st.sampled_from([1, -1]), st.integers(0, 3)),
    st.sampled_from([("write",), ("begin_sync",), ("end_sync",), ("refuse",), ("lead",), ("resign",), ("offline",)]),
    st.sampled_from([("write",), ("begin_sync",), ("end_sync",), ("lead",)]),
    st.tuples(st.just("rework"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("configure"), st.booleans(), st.sampled_from(["producer", "zstd"])),
    st.tuples(st.just("tick"), st.sampled_from([0, 3, 6])),
)


@given(events=st.lists(EVENTS, min_size=15, max_size=40))
def test_each_append_is_answered_once_and_by_its_own_role(events):
    """After a role is over none of its answers is a success, no later role has its waiters, and the mark stays."""
    with tempfile.TemporaryDirectory() as folder:
        story = Story(folder)
        for name, *arguments in events:
            getattr(story, name)(*arguments)
            story.check()
        story.end()
