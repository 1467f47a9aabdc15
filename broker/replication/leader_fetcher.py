"""Copies from one leader: its requests and answers on the event loop. `Fetching` decides, `Follower` keeps the records."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from stratalog.broker.peers.broker_links import BrokerLinks
from stratalog.broker.peers.peer_errors import PeerError
from stratalog.broker.replicas.follower import Follower
from stratalog.broker.replicas.log_position import LogPosition
from stratalog.broker.replication.correcting import Correcting
from stratalog.broker.replication.fetching import Fetching, FetchLimits
from stratalog.broker.replication.fetching_events import (
    Action,
    Answered,
    Ask,
    Correct,
    Event,
    Failed,
    Followed,
    Refused,
    Released,
    Taken,
    Ticked,
)
from stratalog.broker.replication.tier_start import ArchiveAccess
from stratalog.broker.requests.replication_throttle import ReplicationThrottle
from stratalog.broker.runtime.alarm import Alarm
from stratalog.broker.runtime.slices import SLICE_SECONDS
from stratalog.metadata.image.partition_index import PartitionKey

__all__ = ["IDS_SINCE", "LeaderFetcher"]

IDS_SINCE = 13
"""Fetch names topics by id from this version on. Kafka has it since 3.1."""

log = logging.getLogger(__name__)

_SETTLE_SECONDS: Final = 0.5


class LeaderFetcher:
    """The copies from one broker."""

    def __init__(
        self,
        leader_id: int,
        links: BrokerLinks,
        *,
        local_id: int,
        limits: Callable[[], FetchLimits],
        broker_epoch: Callable[[], int],
        timeout_ms: int,
        monotonic: Callable[[], float],
        draw: Callable[[], float],
        archive: ArchiveAccess | None = None,
        throttle: ReplicationThrottle | None = None,
    ) -> None:
        """``timeout_ms`` bounds the wait for one answer, which the leader holds back for a while.

        ``archive`` is the way to the bucket. ``throttle`` is that of all copies on this broker.
        """
        self._leader_id = leader_id
        self._links = links
        self._broker_epoch = broker_epoch
        self._timeout_ms = timeout_ms
        self._machine = Fetching(local_id, limits, draw, throttle)
        self._throttle = throttle
        self._roles: dict[PartitionKey, Follower] = {}
        self._begun: set[PartitionKey] = set()
        self._correcting = Correcting(links, leader_id, local_id=local_id, timeout_ms=timeout_ms, archive=archive)
        self._alarm = Alarm(monotonic, lambda: self._step(Ticked()))
        self._monotonic = monotonic
        self._actions: deque[tuple[Action, Follower | None]] = deque()
        """The actions that are still to be done, in order, each with the role that it is for."""
        self._is_acting = False
        """Whether it is being done now, or goes on in the next turn of the loop."""
        self._closed = False
        self._told = False

    def __len__(self) -> int:
        """The partitions that are copied."""
        return len(self._roles)

    def follow(self, key: PartitionKey, role: Follower) -> None:
        """Copy a partition in the role's epoch, from where its log ends when all of it is durable."""
        self.release(key)  # what comes for a role before is not for this one, also in the same leader epoch
        self._roles[key] = role
        self._begin(role)

    def _begin(self, role: Follower) -> None:
        """Have the role tell where it goes on. Its leader puts it in sync by the first fetch, so it is compared before."""
        if role.is_overtaken:
            self._correcting.compare(role, self)
        else:
            role.settle(self)

    def release(self, key: PartitionKey) -> None:
        """Copy it no longer."""
        if self._roles.pop(key, None) is not None:
            self._begun.discard(key)
            self._step(Released(key))

    def registered(self) -> None:
        """The broker is registered anew: fetch under that registration what was held back without one."""
        self._step(Ticked())

    def trim(self, role: Follower) -> None:
        """Let the local records of a tiered partition go that its leader has in the archive alone."""
        self._correcting.trim(role)

    def close(self) -> None:
        """Send nothing any more."""
        self._closed = True
        self._alarm.cancel()
        self._correcting.close()

    # -- outcomes of roles ------------------------------------------------------------------------------------

    def taken(self, role: Follower, position: LogPosition) -> None:
        """All that came is in the log."""
        key = role.key
        if self._roles.get(key) is not role:
            return
        if key in self._begun:
            self._step(Taken(key, role.epoch, position))
        else:
            self._begun.add(key)
            self._step(Followed(key, role.epoch, position))

    def refused(self, role: Follower, position: LogPosition) -> None:
        """It is to be asked for again; or for the first time, if the disk had no room for what an earlier role has left."""
        if self._roles.get(role.key) is not role:
            return
        if role.key in self._begun:
            self._step(Refused(role.key, role.epoch, position))
        else:
            asyncio.get_running_loop().call_later(_SETTLE_SECONDS, self._settle_again, role)

    def _settle_again(self, role: Follower) -> None:
        if self._roles.get(role.key) is role and not self._closed:
            self._begin(role)

    # -- driving ----------------------------------------------------------------------------------------------

    def _step(self, event: Event) -> None:
        if self._closed:
            return
        self._machine.broker_epoch = self._broker_epoch()
        for action in self._machine.step(event, self._alarm.now_ms()):
            self._actions.append((action, None if isinstance(action, Ask) else self._roles.get(action.key)))
        self._alarm.set(self._machine.wake_at_ms)
        if not self._is_acting:
            self._act()

    def _act(self) -> None:
        """Do what is to be done, a slice in each turn of the loop: an answer may have hundreds of logs cut."""
        self._is_acting = True
        until = self._monotonic() + SLICE_SECONDS
        try:
            while self._actions and not self._closed:
                if self._monotonic() > until:
                    asyncio.get_running_loop().call_soon(self._act)
                    return
                self._do(*self._actions.popleft())
        except BaseException:
            self._is_acting = False
            raise
        self._is_acting = False

    def _do(self, action: Action, role: Follower | None) -> None:
        if isinstance(action, Ask):
            answer = self._links.ask(
                self._leader_id, action.request, timeout_ms=self._timeout_ms, version_min=IDS_SINCE
            )
            answer.add_done_callback(self._answered)
            return
        if role is None or self._roles.get(action.key) is not role:
            return
        if isinstance(action, Correct):
            self._correcting.begin(role, self, is_archived=action.is_archived)
        else:
            if not action.is_rest:
                self._count(action.key, len(action.data.records or b""))
            rest = role.take(action.data, self)
            if rest is not None:
                left = action._replace(data=rest, is_rest=True), role
                # A cut may last for seconds; of records, memory holds what is left until they are taken.
                (self._actions.append if rest.diverging_epoch is not None else self._actions.appendleft)(left)

    def _count(self, key: PartitionKey, size_bytes: int) -> None:
        if size_bytes and self._throttle is not None and self._throttle.is_key_throttled(key):
            self._throttle.record(size_bytes, self._alarm.now_ms())

    def _answered(self, answer: asyncio.Future[Any]) -> None:
        if answer.cancelled():
            return
        error = answer.exception()
        if error is None:
            self._told = False
            self._step(Answered(answer.result()))
            return
        if not self._closed:
            if not self._told or not isinstance(error, PeerError):
                log.warning(
                    "%d partitions are not copied from broker %d for now: %s", len(self), self._leader_id, error
                )
                self._told = True
            self._step(Failed())
