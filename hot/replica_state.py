"""A leader's view of its replicas: high watermark and in-sync set. Pure.

The high watermark is the smallest log end offset among the in-sync replicas, as the leader knows it: its own (the
flushed one where acknowledged data must be durable) and each follower's last fetch offset. A follower that joins
the set must have reached the high watermark *and* the start of the leader's epoch. While a change of the set is
under way both the old and the new members count (the larger set), so no acknowledgement rests on the smaller one.
Sources: KIP-966 preliminaries, Kafka's ``Partition`` and ``Replica``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["FollowerState", "IsrChange", "ReplicaState"]


@dataclass(slots=True)
class FollowerState:
    """One follower, as the leader knows it."""

    log_end_offset: int = -1
    """Its last fetch offset: everything below is in its log (and durable, where followers sync before fetching)."""
    log_start_offset: int = -1
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    """The last time at which it had everything that the leader had then."""
    leader_end_at_last_fetch: int = 0


class IsrChange(NamedTuple):
    """The in-sync set that the leader asks the controller for."""

    in_sync: tuple[int, ...]
    grows: bool


class ReplicaState:
    """The leader's machine for one partition and one leader epoch."""

    __slots__ = (
        "_followers",
        "_pending",
        "epoch_start_offset",
        "high_watermark",
        "in_sync",
        "leader_end_offset",
        "leader_epoch",
        "local_id",
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
        now_ms: int = 0,
    ) -> None:
        self.local_id = local_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.epoch_start_offset = epoch_start_offset
        """The log end when this epoch began: below it a new leader must not answer ListOffsets."""
        self.leader_end_offset = leader_end_offset
        """The leader's own vote: its log end, or what is flushed of it under sync on ack."""
        self.high_watermark = min(high_watermark, leader_end_offset)
        self.in_sync: tuple[int, ...] = tuple(in_sync)
        self._followers = {broker: FollowerState(last_caught_up_ms=now_ms) for broker in replicas if broker != local_id}
        self._pending: IsrChange | None = None
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

    @property
    def maximal_in_sync(self) -> tuple[int, ...]:
        """The members that count for the high watermark: the in-sync set and those about to join it."""
        if self._pending is None or not self._pending.grows:
            return self.in_sync
        return self._pending.in_sync

    @property
    def epoch_established(self) -> bool:
        """Whether the high watermark has reached the start of this epoch (else OFFSET_NOT_AVAILABLE)."""
        return self.high_watermark >= self.epoch_start_offset

    def check_enough_replicas(self, min_insync_replicas: int) -> None:
        """Before an append with acks=all. Raises `KafkaError` NOT_ENOUGH_REPLICAS; nothing is appended then.

        No more are asked for than the partition has, as in Kafka 4 (KIP-966).
        """
        if len(self.in_sync) < min(min_insync_replicas, len(self.replicas)):
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.in_sync)} replicas are in sync ({', '.join(map(str, self.in_sync))}), "
                f"min.insync.replicas={min_insync_replicas}",
            )

    def is_acknowledged(self, end_offset: int, min_insync_replicas: int) -> bool:
        """Whether acks=all for everything below ``end_offset`` may be answered.

        Raises `KafkaError` NOT_ENOUGH_REPLICAS_AFTER_APPEND if the in-sync set shrank below the minimum meanwhile.
        """
        if self.high_watermark < end_offset:
            return False
        if len(self.in_sync) < min(min_insync_replicas, len(self.replicas)):
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                f"{len(self.in_sync)} replicas are in sync, min.insync.replicas={min_insync_replicas}",
            )
        return True

    # -- events -------------------------------------------------------------------------------------------

    def leader_advanced(self, end_offset: int) -> bool:
        """The leader's own log (flushed, under sync on ack) now ends at ``end_offset``; True if that moved the mark."""
        self.leader_end_offset = end_offset
        return self._advance()

    def follower_fetched(
        self, broker_id: int, fetch_offset: int, *, leader_log_end_offset: int, now_ms: int, log_start_offset: int = -1
    ) -> bool:
        """A follower asks for ``fetch_offset``: it has everything below. True if the high watermark moved.

        It is caught up now if it asks for the leader's end, and was at its previous fetch if it now asks for at
        least what the leader's end was then. Raises `KafkaError` for a stranger.
        """
        state = self.follower(broker_id)
        if fetch_offset >= leader_log_end_offset:
            state.last_caught_up_ms = max(state.last_caught_up_ms, now_ms)
        elif fetch_offset >= state.leader_end_at_last_fetch and state.last_fetch_ms >= 0:
            state.last_caught_up_ms = max(state.last_caught_up_ms, state.last_fetch_ms)
        state.log_end_offset = fetch_offset
        state.log_start_offset = log_start_offset
        state.leader_end_at_last_fetch = leader_log_end_offset
        state.last_fetch_ms = now_ms
        return self._advance()

    def expansion(self, broker_id: int) -> IsrChange | None:
        """The larger set to ask for, if this follower has earned its place in it and no change is under way."""
        state = self.follower(broker_id)
        if self._pending is not None or broker_id in self.in_sync:
            return None
        if state.log_end_offset < max(self.high_watermark, self.epoch_start_offset):
            return None
        self._pending = IsrChange((*self.in_sync, broker_id), grows=True)
        return self._pending

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
        self._pending = IsrChange(kept, grows=False)
        return self._pending

    def isr_changed(self, in_sync: Iterable[int], partition_epoch: int) -> bool:
        """The controller decided (or metadata says): this is the set. True if the high watermark moved."""
        if partition_epoch < self.partition_epoch:
            return False
        self.in_sync = tuple(in_sync)
        self.partition_epoch = partition_epoch
        self._pending = None
        return self._advance()

    def isr_change_failed(self) -> None:
        """The controller refused or did not answer: ask again later."""
        self._pending = None

    def _advance(self) -> bool:
        """The mark rises to what every counting member has; it never falls."""
        lowest = self.leader_end_offset
        for broker in self.in_sync if self._pending is None else self.maximal_in_sync:
            if broker != self.local_id:
                lowest = min(lowest, self.follower(broker).log_end_offset)
        if lowest <= self.high_watermark:
            return False
        self.high_watermark = lowest
        return True
