"""The model that ``test_model_replicas.py`` searches: two brokers' logs, one archive, and a second cluster.

A record's value is the epoch that wrote it, 100 and more in the second cluster. Brokers crash, are killed, lose power
or their disk, are elected cleanly or not, and never learn in time that they are fenced. Claims, commits, the check
before the first write and the comparison of histories are the shipped functions; ``dropped`` names the rule left out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from stratalog.tier.entry import Entry, LeaderEpoch
from stratalog.tier.manifest import Claimant, Manifest, Uploaded, claim, commit, take_over
from stratalog.tier.reconcile import RestartAt, must_reconcile, reconcile


class Broker(NamedTuple):
    leads: int = 0  # the epoch it believes to lead, 0: follower
    ready: bool = False  # rule 8 is done, it may write
    isr: int = 0  # its view, a bit mask
    start: int = 0  # local log start
    log: tuple = ()
    flushed: int = 0
    high: int = 0  # high watermark
    checkpoint: int = 0  # of the remote end, -1: missing
    dirty: bool = False  # unclean stop without sync on ack, or wiped, since it last caught up
    unclean: bool = False  # elected from outside the ISR

    @property
    def end(self):
        return self.start + len(self.log)


class State(NamedTuple):
    leader: int
    epoch: int
    isr: int
    brokers: tuple
    manifest: int
    acked: tuple
    flying: frozenset
    elections: int
    crashes: int
    delays: int
    takeovers: int
    second: tuple = ()  # the second cluster: () or (start, log)
    second_acked: tuple = ()
    recovering: bool = False  # the controller's LeaderRecoveryState
    wrong: str = ""


def lineage_of(start, log):
    """The leader epoch cache of a log."""
    epochs = []
    for number, value in enumerate(log):
        if not epochs or epochs[-1].epoch != value:
            epochs.append(LeaderEpoch(value, start + number))
    return tuple(epochs)


class Replicas:
    """The sub-model. ``dropped`` is the rule left out. ``lazy``: acks do not wait for a flush."""

    def __init__(
        self, tools, dropped="", *, records=1, elections=2, crashes=1, delays=1, takeovers=0, lazy=True, unclean=True, wipe=True
    ):  # fmt: skip
        self.tools, self.dropped = tools, dropped
        self.records, self.lazy, self.unclean, self.wipe = records, lazy, unclean, wipe
        first = Broker(leads=1, ready=True, isr=3)
        empty = tools.number(Manifest(tools.PARTITION))
        begin = tools.step(self._claim, empty, self.claimant((0, 0)))
        self.initial = State(0, 1, 3, (first, Broker()), begin, (), frozenset(), elections, crashes, delays, takeovers)
        self.contents = {}

    def check(self):
        """Search it."""
        return self.tools.search(self.initial, self.successors, self.violation)

    # The shipped functions.

    @staticmethod
    def claimant(rank):
        return Claimant(*rank, bytes([*rank] + [0] * 14))

    @staticmethod
    def _claim(manifest, claimant):
        return claim(manifest, claimant, now_ms=0)

    @staticmethod
    def _take_over(manifest, claimant):
        return take_over(manifest, claimant, now_ms=0)

    def _commit(self, manifest, claimant, base, values):
        if self.dropped == "refuse lower claims" and manifest.claimant.rank > claimant.rank:
            held = manifest.claimant
            return replace(self._commit(replace(manifest, claimant=claimant), claimant, base, values), claimant=held)
        uuid = bytes([*claimant.rank, base, len(values), *values] + [0] * 12)[:16]
        self.contents[uuid] = values
        end = base + len(values)
        location = self.tools.PARTITION.segment_key(base, end, claimant.leader_epoch, uuid)
        entry = Entry(
            uuid, base, end, claimant.leader_epoch, location, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1,
            epochs=lineage_of(base, values),
        )  # fmt: skip
        return commit(manifest, claimant, [Uploaded(entry, claimant)], now_ms=0)

    def rank(self, state, broker):
        learnt = self.dropped == "own incarnation"
        return (self.tools.manifest(state.manifest).claimant.incarnation if learnt else 0, broker.leads)

    def archived(self, state, offset):
        for entry in self.tools.manifest(state.manifest).entries:
            if entry.base <= offset < entry.end:
                return self.contents[entry.uuid][offset - entry.base]
        return None

    def view(self, state, broker, offset):
        """What a reader gets from this broker: local if it has it, else the archive."""
        if broker.start <= offset < broker.end:
            return broker.log[offset - broker.start]
        return self.archived(state, offset)

    # What can happen.

    @staticmethod
    def with_(state, index, broker, **changes):
        brokers = (state.brokers[0], broker) if index else (broker, state.brokers[1])
        return state._replace(brokers=brokers, **changes)

    def acknowledge(self, state, broker):
        """What the true leader's high watermark passed is acknowledged."""
        if broker.leads != state.epoch or broker.high <= len(state.acked):
            return state.acked
        return state.acked + tuple(self.view(state, broker, o) for o in range(len(state.acked), broker.high))

    def swap(self, state, label, after, rank, index=None, checkpoint=None):
        """A compare-and-swap that succeeds, or that is sent and lands any time later."""
        if after is None:
            return
        done = state._replace(manifest=after, wrong=self.wrong_order(state, after, rank))
        if checkpoint is not None:
            done = self.with_(done, index, state.brokers[index]._replace(checkpoint=checkpoint))
        yield label, done
        if state.delays:
            flying = state.flying | {(state.manifest, after, rank)}
            yield f"{label}, no reply, in flight", state._replace(flying=flying, delays=state.delays - 1)

    def wrong_order(self, state, after, rank):
        before = self.tools.manifest(state.manifest)
        if self.tools.manifest(after).entries != before.entries and rank < before.claimant.rank:
            return "a lower claim committed after a higher one"
        return state.wrong

    def successors(self, state):
        for request in state.flying:
            before, after, rank = request
            rest = state.flying - {request}
            if before == state.manifest or self.dropped == "compare and swap":
                wrong = self.wrong_order(state, after, rank)
                yield "a delayed swap lands", state._replace(flying=rest, manifest=after, wrong=wrong)
            else:
                yield "a delayed swap is refused", state._replace(flying=rest)
        for index, name in enumerate("AB"):
            broker = state.brokers[index]
            if broker.leads and broker.ready:
                yield from self.leading(state, index, name, broker)
            yield from self.evicting(state, index, name, broker)
            yield from self.following(state, index, name, broker)
            yield from self.changing(state, index, name, broker)
            if broker.leads and not broker.ready:
                yield from self.starting(state, index, name, broker)
            if state.crashes:
                yield from self.crashing(state, index, name, broker)
        yield from self.second_cluster(state)

    def leading(self, state, index, name, broker):
        if broker.end < self.records:
            longer = broker._replace(log=(*broker.log, broker.leads))
            if not self.lazy:
                longer = longer._replace(flushed=longer.end)
            if longer.isr == 1 << index:
                longer = longer._replace(high=longer.end)
            acked = self.acknowledge(state, longer)
            yield f"{name} appends offset {broker.end}", self.with_(state, index, longer, acked=acked)
        if broker.leads == state.epoch and broker.isr == 3:
            alone = broker._replace(isr=1 << index, high=broker.end)
            acked = self.acknowledge(state, alone)
            yield f"{name} shrinks the ISR to itself", self.with_(state, index, alone, isr=1 << index, acked=acked)
        rank = self.rank(state, broker)
        claimed = self.tools.step(self._claim, state.manifest, self.claimant(rank))
        yield from self.swap(state, f"{name} claims {rank}", claimed, rank)
        yield from self.archiving(state, index, name, broker, rank)

    def archiving(self, state, index, name, broker, rank):
        base = self.tools.manifest(state.manifest).remote_end
        top = broker.end if self.dropped == "below the high watermark" else broker.high
        for end in range(base + 1, min(top, broker.flushed) + 1):
            if broker.start > base:
                return
            values = tuple(broker.log[o - broker.start] for o in range(base, end))
            after = self.tools.step(self._commit, state.manifest, self.claimant(rank), base, values)
            yield from self.swap(state, f"{name} archives [{base}, {end})", after, rank, index, end)
            if self.dropped == "read back" and state.delays and end > broker.start and after is not None:
                evicted = broker._replace(start=end, log=broker.log[end - broker.start :])
                flying = state.flying | {(state.manifest, after, rank)}
                gone = self.with_(state, index, evicted, flying=flying, delays=state.delays - 1)
                yield f"{name} sends a commit of [{base}, {end}) and evicts", gone

    def evicting(self, state, index, name, broker):
        if broker.leads and not broker.ready:
            return
        manifest = self.tools.manifest(state.manifest)
        if broker.leads:
            mine = manifest.claimant.rank == self.rank(state, broker) or self.dropped == "my claim"
        else:
            mine = manifest.claimant.incarnation == 0 or self.dropped == "own cluster"
        end = min(manifest.remote_end, broker.end)
        if mine and end > broker.start:
            evicted = broker._replace(
                start=end,
                log=broker.log[end - broker.start :],
                checkpoint=manifest.remote_end,
                flushed=max(broker.flushed, end),
            )
            yield f"{name} evicts below {end}", self.with_(state, index, evicted)

    def following(self, state, index, name, broker):
        other = state.brokers[1 - index]
        if broker.leads or other.leads != state.epoch or not other.ready:
            return
        start, log = (other.start, ()) if broker.end < other.start else (broker.start, broker.log)
        same = 0
        while same < len(log) and start + same < other.end and log[same] == self.view(state, other, start + same):
            same += 1
        kept = log[:same]
        flushed = min(broker.flushed, start + same)
        kept += tuple(self.view(state, other, o) for o in range(start + same, other.end))
        end = start + len(kept)
        caught = broker._replace(start=start, log=kept, high=min(other.high, end), dirty=False)
        caught = caught._replace(flushed=flushed if self.lazy else end)
        leader = other._replace(isr=3, high=other.end)
        brokers = (leader, caught) if index else (caught, leader)
        after = state._replace(brokers=brokers, isr=3)
        yield f"{name} catches up to {other.end}", after._replace(acked=self.acknowledge(after, leader))

    def changing(self, state, index, name, broker):
        if broker.flushed < broker.end:
            yield f"{name} flushes", self.with_(state, index, broker._replace(flushed=broker.end))
        if broker.leads and broker.leads < state.epoch:
            deposed = broker._replace(leads=0, ready=False, unclean=False)
            yield f"{name} learns that it is deposed", self.with_(state, index, deposed)
        if not state.elections or (index == state.leader and broker.leads == state.epoch):
            return
        clean = bool(state.isr >> index & 1)
        if clean or self.unclean:
            lost = not clean or broker.dirty
            owed = not clean or (state.recovering and self.dropped != "remembered by the controller")
            elected = broker._replace(leads=state.epoch + 1, ready=False, isr=1 << index, unclean=owed)
            yield (
                f"{name} is elected {'cleanly' if clean else 'UNCLEANLY'}",
                self.with_(
                    state,
                    index,
                    elected,
                    leader=index,
                    epoch=state.epoch + 1,
                    isr=1 << index,
                    elections=state.elections - 1,
                    recovering=owed,
                    acked=self.surviving(state, broker) if lost else state.acked,
                ),
            )

    def surviving(self, state, broker):
        """An unclean election loses what only others had: that is Kafka's bargain, not the archive's."""
        for offset, value in enumerate(state.acked):
            if value not in (self.view(state, broker, offset), self.archived(state, offset)):
                return state.acked[:offset]
        return state.acked

    def starting(self, state, index, name, broker):
        """Rule 8."""
        uncertain = self.dropped != "whenever something may be missing"
        needed = self.dropped != "the archive wins" and must_reconcile(
            remote_end_checkpoint=None if broker.checkpoint < 0 else broker.checkpoint,
            log_end_offset=broker.end,
            elected_uncleanly=uncertain and broker.unclean,
            stopped_uncleanly=uncertain and broker.dirty,
            wiped=False,
        )
        started, number = broker, state.manifest
        if needed:
            rank = self.rank(state, broker)
            if self.dropped != "claim before the check":
                number = self.tools.step(self._claim, number, self.claimant(rank))
                if number is None:
                    if self.tools.manifest(state.manifest).claimant.rank != rank:
                        return  # fenced: it stands down
                    number = state.manifest
            started = self.reconciled(self.tools.manifest(number), broker)
        started = started._replace(ready=True, high=started.end, dirty=False, unclean=False)
        recovering = state.recovering and broker.leads != state.epoch
        after = self.with_(state, index, started, manifest=number, recovering=recovering)
        how = "after reading the bucket" if needed else "without the bucket"
        yield f"{name} starts to lead {how}", after._replace(acked=self.acknowledge(after, started))

    def reconciled(self, manifest, broker):
        ours = lineage_of(broker.start, broker.log)
        if self.dropped == "compare the epochs":
            ours = manifest.leader_epochs
        decision = reconcile(
            remote_end=manifest.remote_end,
            remote_log_start=manifest.log_start_offset,
            remote_epochs=manifest.leader_epochs,
            snapshot_key=None,
            local_start=broker.start,
            local_end=broker.end,
            local_epochs=ours,
            log_start_checkpoint=0,
        )
        checked = broker._replace(checkpoint=manifest.remote_end)
        if isinstance(decision, RestartAt):
            return checked._replace(start=decision.offset, log=(), flushed=decision.offset)
        return checked

    def crashing(self, state, index, name, broker):
        ends = {"is killed": broker.end}
        if self.lazy and broker.flushed < broker.end:
            ends["loses power"] = max(broker.flushed, broker.start)
        if self.wipe:
            ends["loses its disk"] = -1
        for how, end in ends.items():
            after = Broker(checkpoint=-1, dirty=True)
            if end >= 0:
                after = Broker(
                    start=broker.start,
                    log=broker.log[: end - broker.start],
                    flushed=end,
                    high=min(broker.high, end),
                    checkpoint=broker.checkpoint,
                    dirty=self.lazy or broker.dirty,
                )
            yield f"{name} {how}", self.with_(state, index, after, crashes=state.crashes - 1)

    def second_cluster(self, state):
        manifest = self.tools.manifest(state.manifest)
        if state.takeovers:
            after = self.tools.step(self._take_over, state.manifest, self.claimant((1, 1)))
            yield (
                "a second cluster takes over",
                state._replace(manifest=after, takeovers=0, second=(manifest.remote_end, ())),
            )
        if not state.second:
            return
        start, log = state.second
        end, remote_end = start + len(log), manifest.remote_end
        if end < self.records:
            acked = (*state.second_acked, (end, 101))
            yield f"C appends offset {end}", state._replace(second=(start, (*log, 101)), second_acked=acked)
        if start <= remote_end < end:
            values = log[remote_end - start :]
            after = self.tools.step(self._commit, state.manifest, self.claimant((1, 1)), remote_end, values)
            yield from self.swap(state, f"C archives [{remote_end}, {end})", after, (1, 1))
        if manifest.claimant.rank == (1, 1) and start < remote_end <= end:
            yield f"C evicts below {remote_end}", state._replace(second=(remote_end, log[remote_end - start :]))

    # What must never be.

    def violation(self, state):
        return state.wrong or self.tools.fault(state.manifest) or self.second_fault(state) or self.leader_fault(state)

    def second_fault(self, state):
        if not state.second:
            return None
        start, log = state.second
        if self.tools.manifest(state.manifest).remote_end > start + len(log):
            return "the archive runs past its owner's log end"
        for number, value in enumerate(log):
            if self.archived(state, start + number) not in (None, value):
                return f"offset {start + number} differs between archive and the second cluster"
        for offset, value in state.second_acked:
            if (log[offset - start] if offset >= start else self.archived(state, offset)) != value:
                return f"the second cluster's acknowledged offset {offset} is unreadable"
        return None

    def leader_fault(self, state):
        leader = state.brokers[state.leader]
        if leader.leads != state.epoch or not leader.ready:
            return None
        for offset, value in enumerate(state.acked):
            if self.view(state, leader, offset) != value:
                return f"acknowledged offset {offset} is lost or another record"
        if state.second:
            return None
        if self.tools.manifest(state.manifest).remote_end > leader.end:
            return "the archive runs past the leader's log end"
        held = range(leader.start, leader.end)
        forked = [o for o in held if self.archived(state, o) not in (None, self.view(state, leader, o))]
        return f"offset {forked[0]} differs between archive and log" if forked else None
