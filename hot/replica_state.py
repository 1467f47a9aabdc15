"""A leader's view of its replicas: high watermark and in-sync set. Pure.

The high watermark is the smallest log end offset among the in-sync replicas, as the leader knows it: its own (the
flushed one where acknowledged data must be durable) and each follower's last fetch offset. A follower that joins
the set must have reached the high watermark *and* the start of the leader's epoch.

While a change of the set is under way both the old and the new members count (the larger set), so no acknowledgement
rests on the smaller one. The change is under way until the metadata log has a newer set, or the controller says that it
was not carried out. A lost answer says neither: the controller may have granted the change.

The high watermark stands still while fewer replicas are in sync than ``min.insync.replicas``: eligible leader replicas
(KIP-966) are complete up to it, and they stay so. Sources: KIP-497, KIP-841, KIP-903, KIP-966, Kafka's ``Partition``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec import Struct

from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["NO_BROKER_EPOCH", "FollowerState", "InSyncReplica", "IsrChange", "ReplicaState"]

NO_BROKER_EPOCH: Final = -1
"""The broker epoch of a follower that does not tell it, or has not fetched yet."""

_NOT_CARRIED_OUT: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""Codes of the controller for a change that it refused for good. After any other code it may have granted it."""


class FollowerState(Struct):
    """One follower, as the leader knows it."""

    log_end_offset: int = -1
    """Its last fetch offset: everything below is in its log (and durable, where followers sync before fetching)."""
    log_start_offset: int = -1
    broker_epoch: int = NO_BROKER_EPOCH
    """The registration that its last fetch told; -1 if it told none."""
    newest_broker_epoch: int = NO_BROKER_EPOCH
    """A fetch of an earlier registration than this one is refused."""
    """The registration of its broker under which it fetched last (KIP-903)."""
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    """The last time at which it had everything that the leader had then."""
    leader_end_at_last_fetch: int = 0
    stands_at_end: bool = False
    """Whether it had all of the leader's log when it was looked at last."""


class InSyncReplica(NamedTuple):
    """A member of the set that a leader asks for."""

    broker_id: int
    broker_epoch: int
    """The registration under which it has earned its place; `NO_BROKER_EPOCH` if this is not known."""


class IsrChange(NamedTuple):
    """The in-sync set that the leader asks the controller for (AlterPartition)."""

    in_sync: tuple[InSyncReplica, ...]
    partition_epoch: int
    """The partition epoch that the change builds on: the controller refuses it on any other."""
    grows: bool

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """The members' brokers."""
        return tuple(member.broker_id for member in self.in_sync)


class ReplicaState:
    """The leader's machine for one partition and one leader epoch."""

    __slots__ = (
        "_followers",
        "_pending",
        "_pending_copies",
        "_retraction",
        "_someone_at_end",
        "epoch_start_offset",
        "high_watermark",
        "in_sync",
        "is_recovering",
        "leader_end_offset",
        "leader_epoch",
        "local_broker_epoch",
        "local_id",
        "min_insync_replicas",
        "partition_epoch",
    )

    def __init__(
        self,
        local_id: int,
        *,
        replicas: Iterable[int],
        in_sync: Iterable[int],
        leader_epoch: int,
        epoch_start_offset: int,
        leader_end_offset: int,
        high_watermark: int = 0,
        partition_epoch: int = 0,
        min_insync_replicas: int = 1,
        local_broker_epoch: int = NO_BROKER_EPOCH,
        is_recovering: bool = False,
        now_ms: int = 0,
    ) -> None:
        """``now_ms`` counts from any fixed moment and never goes back."""
        self.local_id = local_id
        self.local_broker_epoch = local_broker_epoch
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.epoch_start_offset = epoch_start_offset
        """The log end when this epoch began: below it a new leader must not answer ListOffsets."""
        self.leader_end_offset = leader_end_offset
        """The leader's own vote: its log end, or what is flushed of it under sync on ack."""
        self.high_watermark = min(high_watermark, leader_end_offset)
        self.in_sync: tuple[int, ...] = tuple(in_sync)
        self.is_recovering = is_recovering
        """Whether the metadata log has this leader as elected uncleanly, and has not heard that it has recovered (KIP-704)."""
        self.min_insync_replicas = min_insync_replicas
        self._followers = {broker: FollowerState(last_caught_up_ms=now_ms) for broker in replicas if broker != local_id}
        self._pending: IsrChange | None = None
        self._pending_copies = 0
        self._retraction: IsrChange | None = None
        self._someone_at_end = False
        self._advance()

    # -- what is known ------------------------------------------------------------------------------------

    def follower(self, broker_id: int) -> FollowerState:
        """The state of a follower. Raises `KafkaError` UNKNOWN_TOPIC_OR_PARTITION for a broker that is no replica."""
        try:
            return self._followers[broker_id]
        except KeyError:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"broker {broker_id} is not a replica of this partition; its assignment is {self.replicas}",
            ) from None

    @property
    def replicas(self) -> tuple[int, ...]:
        """Every replica, this one first."""
        return (self.local_id, *self._followers)

    def is_follower(self, broker_id: int) -> bool:
        """Whether the broker is another replica of the partition."""
        return broker_id in self._followers

    @property
    def maximal_in_sync(self) -> tuple[int, ...]:
        """The members that count for the high watermark: the in-sync set and those about to join it."""
        if self._pending is None or not self._pending.grows:
            return self.in_sync
        return self._pending.broker_ids

    @property
    def pending(self) -> IsrChange | None:
        """The change that is under way."""
        return self._pending

    @property
    def retraction(self) -> IsrChange | None:
        """The present set, to be asked for after a change was refused while another copy of it may still be granted.

        A controller of this project raises the partition epoch for it: no earlier copy can be granted then.
        """
        return self._retraction

    @property
    def epoch_established(self) -> bool:
        """Whether the high watermark has reached the start of this epoch (else OFFSET_NOT_AVAILABLE)."""
        return self.high_watermark >= self.epoch_start_offset

    @property
    def enough_in_sync(self) -> bool:
        """Whether as many replicas are in sync as ``min.insync.replicas`` asks for.

        No more are asked for than the partition has, as in Kafka 4 (KIP-966).
        """
        return len(self.in_sync) >= min(self.min_insync_replicas, 1 + len(self._followers))

    def check_enough_replicas(self) -> None:
        """Before an append with acks=all. Raises `KafkaError` NOT_ENOUGH_REPLICAS; nothing is appended then."""
        if not self.enough_in_sync:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.in_sync)} replicas are in sync ({', '.join(map(str, self.in_sync))}), "
                f"min.insync.replicas={self.min_insync_replicas}",
            )

    # -- events -------------------------------------------------------------------------------------------

    def leader_advanced(self, end_offset: int) -> bool:
        """The leader's own log (flushed, under sync on ack) now ends at ``end_offset``; True if that moved the mark."""
        self.leader_end_offset = end_offset
        return self._advance()

    def log_cut(self, log_end_offset: int) -> None:
        """The leader's log ends here: batches queued before this epoch began found no room, and it begins where they would be."""
        self.epoch_start_offset = min(self.epoch_start_offset, log_end_offset)

    @property
    def has_followers(self) -> bool:
        """Whether the partition has other replicas."""
        return bool(self._followers)

    def appended(self, now_ms: int) -> None:
        """The leader's log has grown. A follower that had all of it, and asks again only when there is more, is late from now on."""
        if self._someone_at_end:
            self._someone_at_end = False
            for state in self._followers.values():
                if state.stands_at_end:
                    state.stands_at_end = False
                    state.last_caught_up_ms = max(state.last_caught_up_ms, now_ms)

    def follower_fetched(
        self,
        broker_id: int,
        fetch_offset: int,
        *,
        leader_log_end_offset: int,
        now_ms: int,
        log_start_offset: int = -1,
        broker_epoch: int = NO_BROKER_EPOCH,
    ) -> bool:
        """A follower asks for ``fetch_offset``: it has everything below. True if the high watermark moved.

        It is caught up now if it asks for the leader's end, and was at its previous fetch if it now asks for at
        least what the leader's end was then. Raises `KafkaError` UNKNOWN_TOPIC_OR_PARTITION for a stranger, and
        NOT_LEADER_OR_FOLLOWER, as Kafka does, for a fetch that its broker sent before it registered anew: the log it
        speaks of may be gone.
        """
        state = self.follower(broker_id)
        if NO_BROKER_EPOCH < broker_epoch < state.newest_broker_epoch:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {broker_id} sent this fetch under broker epoch {broker_epoch}; it has fetched under "
                f"{state.newest_broker_epoch} since",
            )
        state.stands_at_end = fetch_offset >= leader_log_end_offset
        if state.stands_at_end:
            self._someone_at_end = True
            state.last_caught_up_ms = max(state.last_caught_up_ms, now_ms)
        elif fetch_offset >= state.leader_end_at_last_fetch and state.last_fetch_ms >= 0:
            state.last_caught_up_ms = max(state.last_caught_up_ms, state.last_fetch_ms)
        state.log_end_offset = fetch_offset
        state.log_start_offset = log_start_offset
        state.broker_epoch, state.newest_broker_epoch = broker_epoch, max(state.newest_broker_epoch, broker_epoch)
        state.leader_end_at_last_fetch = leader_log_end_offset
        state.last_fetch_ms = now_ms
        return self._advance()

    def expansion(self, broker_id: int, leader_log_start_offset: int = 0) -> IsrChange | None:
        """The larger set to ask for, if this follower has earned its place in it and no change is under way.

        It begins where the leader does, if it tells where it begins: it would lead with records that are deleted.
        """
        state = self.follower(broker_id)
        if self._pending is not None or broker_id in self.in_sync:
            return None
        if 0 <= state.log_start_offset < leader_log_start_offset:
            return None
        if state.log_end_offset < max(self.high_watermark, self.epoch_start_offset):
            return None
        return self._begin_change((*self.in_sync, broker_id), grows=True)

    def waiting_outside(self) -> tuple[int, ...]:
        """Followers that are not in sync and have all that the leader counts, as far as their last fetches tell.

        Where nothing is appended no further fetch says so: what kept them out may have ended since.
        """
        if self._pending is not None or len(self.in_sync) > len(self._followers):
            return ()
        return tuple(
            broker
            for broker, state in self._followers.items()
            if broker not in self.in_sync and state.log_end_offset >= self.leader_end_offset
        )

    def shrinking(self, now_ms: int, replica_lag_time_max_ms: int) -> IsrChange | None:
        """The smaller set to ask for, if members have not been caught up for too long and no change is under way.

        A follower that stands at the leader's end is in sync however long ago it fetched.
        """
        if self._pending is not None:
            return None
        kept = tuple(
            broker
            for broker in self.in_sync
            if broker == self.local_id
            or self.follower(broker).log_end_offset >= self.leader_end_offset
            or now_ms - self.follower(broker).last_caught_up_ms <= replica_lag_time_max_ms
        )
        if len(kept) == len(self.in_sync):
            return None
        return self._begin_change(kept, grows=False)

    def recovered(self) -> IsrChange | None:
        """The present set, to be asked for when the leader has recovered from an unclean election.

        Every request says so; this one is for a set that does not change. None without need, or while a change is under way.
        """
        if not self.is_recovering or self._pending is not None:
            return None
        return self._begin_change(self.in_sync, grows=False)

    def ask_again(self) -> IsrChange | None:
        """One more copy of the change that is under way, whose answer did not come or did not decide it."""
        if self._pending is not None:
            self._pending_copies += 1
        return self._pending

    def isr_changed(
        self,
        in_sync: Iterable[int],
        partition_epoch: int,
        min_insync_replicas: int,
        *,
        replicas: Iterable[int] | None = None,
        is_recovering: bool = False,
        now_ms: int = 0,
    ) -> bool:
        """The metadata log has this set, with the ``min.insync.replicas`` of the same image. True if the mark moved.

        ``replicas`` is the assignment there, which a reassignment changes without a new leader epoch; None if it stays.
        ``is_recovering`` is as the attribute.

        The set is taken from the log alone, not from the answer to a change: the answer may overtake an image that
        raises ``min.insync.replicas``, and the mark would pass what the new number protects.
        """
        self.min_insync_replicas = min_insync_replicas
        if partition_epoch > self.partition_epoch:
            self.in_sync = tuple(in_sync)
            self.partition_epoch, self.is_recovering = partition_epoch, is_recovering
            self._pending = self._retraction = None
            if replicas is not None:
                self._assign(replicas, now_ms)
        return self._advance()

    def _assign(self, replicas: Iterable[int], now_ms: int) -> None:
        followers = self._followers
        others = [broker for broker in replicas if broker != self.local_id]
        self._followers = {one: followers.get(one) or FollowerState(last_caught_up_ms=now_ms) for one in others}

    def isr_change_refused(self, change: IsrChange, code: ErrorCode) -> bool:
        """The controller answered ``change`` with an error. True if the high watermark moved.

        INELIGIBLE_REPLICA and OPERATION_NOT_ATTEMPTED end it, if it was asked for once. Any other error, a time-out
        and a lost connection leave it under way: it may have been granted, and is asked for again until the metadata
        log has decided. A refusal of one copy says nothing about another that is still on its way: `retraction` is to
        be asked for then, and ends it with the next partition epoch.
        """
        if change is not self._pending or code not in _NOT_CARRIED_OUT:
            return False
        if self._pending_copies > 1 and not self._is_void(change):
            members = tuple(InSyncReplica(broker, NO_BROKER_EPOCH) for broker in self.in_sync)
            self._retraction = IsrChange(members, self.partition_epoch, grows=False)
            return False
        self._pending = self._retraction = None
        return self._advance()

    def retraction_passed_over(self, change: IsrChange) -> bool:
        """The controller has granted ``change`` without a new partition epoch. True if the high watermark moved.

        If it is the retraction, Kafka's controllers do so: they never raise the epoch for a set that holds already. The change
        under way ends all the same, as that of Kafka's leaders. Else a member that is gone would hold the mark for ever.
        """
        if change is not self._retraction:
            return False
        self._pending = self._retraction = None
        return self._advance()

    def _is_void(self, change: IsrChange) -> bool:
        """Whether no copy can be granted any more: a member has fetched under a later registration than it names."""
        return any(NO_BROKER_EPOCH < one.broker_epoch < self._broker_epoch(one.broker_id) for one in change.in_sync)

    def _begin_change(self, broker_ids: Iterable[int], *, grows: bool) -> IsrChange:
        members = (InSyncReplica(broker, self._broker_epoch(broker)) for broker in broker_ids)
        self._pending, self._pending_copies = IsrChange(tuple(members), self.partition_epoch, grows), 1
        return self._pending

    def _broker_epoch(self, broker_id: int) -> int:
        return self.local_broker_epoch if broker_id == self.local_id else self.follower(broker_id).broker_epoch

    def _advance(self) -> bool:
        """The mark rises to what every counting member has; it never falls, and waits for enough members."""
        if not self.enough_in_sync:
            return False
        lowest = self.leader_end_offset
        for broker in self.in_sync if self._pending is None else self.maximal_in_sync:
            if broker != self.local_id:
                lowest = min(lowest, self.follower(broker).log_end_offset)
        if lowest <= self.high_watermark:
            return False
        self.high_watermark = lowest
        return True
