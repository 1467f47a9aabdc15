"""Heartbeats like the one before on the same connection, answered without decoding them.

A member sends the same bytes every few seconds, but for the correlation id, and there is nearly never anything to tell
it. Thousands of such requests, each waking the broker, cost mostly what code and data they bring into cold caches: so
here is little of either. A connection remembers one heartbeat::

    code  correlation  rest: client id, group, member, epoch
    4     4            as in the request that was decoded

Anything else takes the long way, and nothing can tell by which way a heartbeat went. The authorizer is asked as on the long
way (`stratalog.broker.shortcuts.clearance`), and what is remembered is forgotten when the client id changes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from stratalog.broker.api.broker_view import Context
from stratalog.broker.coordinators.shard_driver import ShardDriver
from stratalog.broker.requests.authorizer import Operation, ResourceType
from stratalog.broker.shortcuts.clearance import Clearance
from stratalog.metadata.groups.shard.repeated_heartbeats import (
    RepeatedHeartbeat,
    repeated_classic_heartbeat,
    repeated_consumer_heartbeat,
)
from stratalog.metadata.groups.shard.shard import GroupShard
from stratalog.wire.errors import KafkaError
from stratalog.wire.frame import ResponseSlot, encode_response
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from stratalog.wire.messages.heartbeat import HeartbeatRequest

if TYPE_CHECKING:
    from stratalog.broker.network.connection import Connection

__all__ = ["HeartbeatShortcut", "remember"]

_REST_AT: Final = 8
_ANSWER_HEAD: Final = struct.Struct(">ii")

_RESTS_AFTER: Final = 2
"""Heartbeats in a row, all like the one that took the long way, after which the connection may rest."""


class HeartbeatShortcut:
    """The heartbeat that a connection remembers."""

    __slots__ = (
        "_answer_behind",
        "_answer_bytes",
        "_clearance",
        "_code",
        "_driver",
        "_frame_bytes",
        "_heartbeat",
        "_in_a_row",
        "_monotonic",
        "_rest",
        "_row",
        "_shard",
        "_unpack",
        "rests",
    )

    def __init__(
        self,
        context: Context,
        frame: memoryview,
        driver: ShardDriver,
        heartbeat: RepeatedHeartbeat,
        clearance: Clearance | None,
    ) -> None:
        row = context.row
        self._clearance = clearance
        self.rests = False
        self._in_a_row = 0
        self._monotonic = context.dispatcher.monotonic
        self._frame_bytes = len(frame)
        self._unpack = struct.Struct(f">4si{len(frame) - _REST_AT}s").unpack
        self._code, _, self._rest = self._unpack(frame)
        self._row = row
        self._driver = driver
        self._shard = driver.shard
        self._heartbeat = heartbeat
        answer = b"".join(encode_response(0, row.encode(heartbeat.answer), flexible=row.response_flexible))  # type: ignore[arg-type]
        self._answer_bytes, _ = _ANSWER_HEAD.unpack_from(answer)
        self._answer_behind = answer[_ANSWER_HEAD.size :]

    def handle(self, connection: Connection, frame: memoryview) -> bool:
        """Answer a heartbeat with the same bytes; False, and nothing done, if it or its answer may be another."""
        if len(frame) != self._frame_bytes:
            return self._leave()
        code, correlation_id, rest = self._unpack(frame)
        driver = self._driver
        if rest != self._rest or code != self._code or not driver.has_settled(self._shard):
            return self._leave()
        clearance = self._clearance
        if clearance is not None and not clearance.holds():
            return self._leave()
        if not self._heartbeat.beat(driver.now()):
            return self._leave()
        if not self.rests:
            self._in_a_row += 1
            self.rests = self._in_a_row >= _RESTS_AFTER
        self._row.count(self._monotonic() - connection.read_at)
        connection.answer(ResponseSlot(), [_ANSWER_HEAD.pack(self._answer_bytes, correlation_id) + self._answer_behind])
        return True

    def nothing_came(self) -> None:
        """Do nothing: it never rests."""

    def end(self) -> None:
        """Do nothing: there is nothing to give back."""

    def _leave(self) -> bool:
        """Leave a request to the long way."""
        self._in_a_row, self.rests = 0, False
        return False


def remember(context: Context, frame: memoryview) -> None:
    """Remember a heartbeat that took the long way, after it was handled, if another like it needs not."""
    connection = context.connection
    if connection.shortcut is not None and not isinstance(connection.shortcut, HeartbeatShortcut):
        return
    groups = context.broker.groups
    request: ConsumerGroupHeartbeatRequest | HeartbeatRequest = context.request
    clearance = Clearance.of(context, (Operation.READ, ResourceType.GROUP, request.group_id))
    if clearance is not None and not clearance.holds():
        return
    try:
        driver = groups.host.of(request.group_id)
    except KafkaError:
        return
    shard = driver.shard
    assert isinstance(shard, GroupShard)
    if isinstance(request, HeartbeatRequest):
        heartbeat = repeated_classic_heartbeat(shard, request)
    else:
        client_id, host = context.client_id or "", f"/{connection.host}"
        heartbeat = repeated_consumer_heartbeat(shard, request, client_id, host, driver.now())
    if heartbeat is not None:
        connection.remember(HeartbeatShortcut(context, frame, driver, heartbeat, clearance))
