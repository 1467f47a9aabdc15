"""The model that ``test_replicas.py`` searches: two brokers' logs, one archive, and a second cluster.

A record's value is the epoch that wrote it, 100 and more in the second cluster. Brokers crash, are killed, lose power
or their disk, are elected cleanly or not, and never learn in time that they are fenced. A broker that is alone may go back
to an earlier state of its disk, with all that the controller knew then: what it writes afterwards has 50 more than its epoch,
which is given out a second time. Claims, commits, the check
before the first write and the comparison of histories are the shipped functions; ``dropped`` names the rule left out.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace
from stratalog_rollback_model import LIFE, Rollbacks
from stratalog_takeover_model import Takeovers

from stratalog.tier.manifests.entry import Entry, LeaderEpoch
from stratalog.tier.manifests.manifest import Claimant, Manifest, Uploaded, claim, commit, take_over
from stratalog.tier.planning.reconcile import RestartAt, must_reconcile, reconcile


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
    unseen: bool = False  # it leads, and the bucket has not answered yet
    suspicious: bool = False  # another timeline was noticed; remembered on the disk
    life: int = 0  # how often its disk went back
    made: frozenset = frozenset()  # uuids of the claims that its disk knows of

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
    rollbacks: int = 0
    copy: tuple = ()  # of the first broker's disk, its controller's records included: () or (broker, epoch)


def epoch_of(value):
    """The epoch under which a record was written."""
    return value - LIFE if LIFE < value < 2 * LIFE else value


def lineage_of(start, log):
    """The leader epoch cache of a log."""
    epochs = []
    for number, value in enumerate(log):
        if not epochs or epochs[-1].epoch != epoch_of(value):
            epochs.append(LeaderEpoch(epoch_of(value), start + number))
    return tuple(epochs)


class Replicas(Rollbacks, Takeovers):
    """The sub-model. ``dropped`` is the rule left out. ``lazy``: acks do not wait for a flush."""

    def __init__(
        self, tools, dropped="", *, records=1, elections=2, crashes=1, delays=1, takeovers=0, lazy=True, unclean=True, wipe=True,
        alone=False, rollbacks=0,
    ):  # fmt: skip
        self.tools, self.dropped = tools, dropped
        self.records, self.lazy, self.unclean, self.wipe = records, lazy, unclean, wipe
        self.alone = alone
        first = Broker(leads=1, ready=True, isr=1 if alone else 3, made=frozenset([self.claimant((0, 0)).uuid]))
        empty = tools.number(Manifest(tools.PARTITION))
        begin = tools.step(self._claim, empty, self.claimant((0, 0)))
        self.initial = State(
            0, 1, first.isr, (first, Broker()), begin, (), frozenset(), elections, crashes, delays, takeovers,
            rollbacks=rollbacks,
        )  # fmt: skip
        self.contents = {}

    def check(self):
        """Search it."""
        return self.tools.search(self.initial, self.successors, self.violation)

    # The shipped functions.

    @staticmethod
    def claimant(rank, life=0):
        return Claimant(*rank, bytes([*rank, life] + [0] * 13))

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
        """Records that a reader gets from this broker: local if it has it, else the archive."""
        if broker.start <= offset < broker.end:
            return broker.log[offset - broker.start]
        return self.archived(state, offset)

    # Possible events.

    @staticmethod
    def with_(state, index, broker, **changes):
        brokers = (state.brokers[0], broker) if index else (broker, state.brokers[1])
        return state._replace(brokers=brokers, **changes)

    def acknowledge(self, state, broker):
        """Records below the true leader's high watermark are acknowledged."""
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
        for index, name in enumerate("A" if self.alone else "AB"):
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
        yield from self.going_back(state)

    def leading(self, state, index, name, broker):
        if broker.end < self.records:
            longer = broker._replace(log=(*broker.log, broker.leads + LIFE * broker.life))
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
        if broker.unseen:
            yield from self.reached(state, index, name, broker)
            return
        rank = self.rank(state, broker)
        claimant = self.claimant(rank, broker.life)
        claimed = self.tools.step(self._claim, state.manifest, claimant)
        noted = self.with_(state, index, broker._replace(made=broker.made | {claimant.uuid}))
        yield from self.swap(noted, f"{name} claims {rank}", claimed, rank)
        yield from self.archiving(state, index, name, broker, rank)

    def archiving(self, state, index, name, broker, rank):
        base = self.tools.manifest(state.manifest).remote_end
        top = broker.end if self.dropped == "below the high watermark" else broker.high
        for end in range(base + 1, min(top, broker.flushed) + 1):
            if broker.start > base:
                return
            values = tuple(broker.log[o - broker.start] for o in range(base, end))
            after = self.tools.step(self._commit, state.manifest, self.claimant(rank, broker.life), base, values)
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
            rank = self.rank(state, broker)
            mine = manifest.claimant == self.claimant(rank, broker.life) or self.dropped == "my claim"
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
        before, original = state, broker
        uncertain = self.dropped != "whenever something may be missing"
        foreign = self.second_timeline(state, broker)
        owed = self.dropped != "the archive wins" and must_reconcile(
            remote_end_checkpoint=None if broker.checkpoint < 0 else broker.checkpoint,
            log_end_offset=broker.end,
            elected_uncleanly=uncertain and broker.unclean,
            stopped_uncleanly=uncertain and broker.dirty,
            wiped=False,
            second_timeline=broker.suspicious,
        )
        needed = owed or foreign
        started, number = broker, state.manifest
        if foreign:  # the controller raises the epoch above that of the claim
            epoch = max(broker.leads, self.tools.manifest(number).claimant.leader_epoch + 1)
            broker = broker._replace(leads=epoch)
            state = self.with_(state, index, broker, epoch=epoch)
        if needed:
            rank = self.rank(state, broker)
            if self.dropped != "claim before the check":
                claimant = self.claimant(rank, broker.life)
                broker = broker._replace(made=broker.made | {claimant.uuid})
                number = self.tools.step(self._claim, number, claimant)
                if number is None:
                    if self.tools.manifest(state.manifest).claimant.rank != rank:
                        return  # fenced: it stands down
                    number = state.manifest
            after = state._replace(manifest=number)
            started = self.reconciled(self.tools.manifest(number), broker, foreign and self.diverged(after, broker))
        started = started._replace(
            ready=True, high=started.end, dirty=False, unclean=False, unseen=False, suspicious=False
        )
        recovering = state.recovering and broker.leads != state.epoch
        after = self.with_(state, index, started, manifest=number, recovering=recovering)
        how = "after reading the bucket" if needed else "without the bucket"
        if broker.suspicious or broker.unseen:  # no promise holds for acknowledgements while the bucket was away
            after = after._replace(acked=self.surviving(after, started))
        yield f"{name} starts to lead {how}", after._replace(acked=self.acknowledge(after, started))
        if self.alone and not owed:
            early = original._replace(ready=True, high=original.end, unseen=True)
            yield f"{name} starts to lead while the bucket does not answer", self.with_(before, index, early)

    def reconciled(self, manifest, broker, diverged=False):
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
            diverged=diverged,
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
                    suspicious=broker.suspicious,
                    unseen=broker.unseen,
                    life=broker.life,
                    made=broker.made,
                )
            yield f"{name} {how}", self.with_(state, index, after, crashes=state.crashes - 1)

    # Forbidden states.

    def violation(self, state):
        return state.wrong or self.tools.fault(state.manifest) or self.second_fault(state) or self.leader_fault(state)

    def leader_fault(self, state):
        leader = state.brokers[state.leader]
        if leader.leads != state.epoch or not leader.ready or leader.unseen:
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
