"""Fetches like earlier ones of the same connection, handled without decoding them.

A consumer of one partition that keeps no session asks the same again and again, but for the correlation id and the
offset. So a connection remembers what the rest meant (`stratalog.broker.shortcuts.fetch_route`), and its answers are a
remembered one with other numbers and records (`stratalog.broker.shortcuts.fetch_answer`). A reader that has everything waits here
for the next append, as any other does in the purgatory, where only its deadline lies.

Beyond that, such a reader *rests* (`stratalog.broker.runtime.resting_sockets`): its next request will have to wait for
an append, and whatever appends wakes the loop. So its request does not wake the loop, as long as others do; it is read
in the very turn in which there is something to be read, and answered at once. That halves how often a steady stream of
small messages wakes the broker. If there is something and the request is not there yet, the connection rests no longer,
and nothing is late. Two things come late, by up to `stratalog.broker.runtime.resting_sockets.REST_SECONDS`: the end of
a wait for nothing, and a request of such a connection for something else.

A request that is unlike the others takes the long way (`stratalog.broker.api.fetch`), and so does whatever is not plain: an
error, a batch from the archive, an aborted transaction. The authorizer is asked as on the long way
(`stratalog.broker.shortcuts.clearance`). No route is remembered where a quota has to be kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stratalog.broker.api.broker_view import Context
from stratalog.broker.fetches.sessionless_fetch import FullFetch
from stratalog.broker.replicas.unified_log import LogRead
from stratalog.broker.requests.context import RequestContext
from stratalog.broker.shortcuts.fetch_route import LONG_WAY, FetchRoute, RequestForm, at_offset, partition_of
from stratalog.broker.shortcuts.fetch_session import FetchSessionShortcut, session_of
from stratalog.metadata.fetch_sessions.fetch_session import EPOCH_FINAL
from stratalog.wire.frame import ResponseSlot
from stratalog.wire.messages.fetch import FetchRequest

if TYPE_CHECKING:
    from stratalog.broker.network.connection import Connection
    from stratalog.broker.runtime.purgatory import Waiter

__all__ = ["FetchShortcut", "remember"]

RESTS_AFTER: Final = 4
"""Requests in a row, each for what follows the answer before, after which a reader that has everything rests."""

STRANGERS_MAX: Final = 8
"""After so many other requests in a row what is remembered gives way to what has become usual."""


class FetchShortcut:
    """The common part of a connection's fetches, and the one that waits.
    Calling it says that the partition has changed.
    """

    __slots__ = (
        "_ended",
        "_form",
        "_in_a_row",
        "_next_offset",
        "_offset",
        "_route",
        "_strangers",
        "_waiter",
        "_waiting",
        "rests",
    )

    _waiter: Waiter

    def __init__(self, route: FetchRoute, form: RequestForm) -> None:
        """Requests of this form take the ``route``."""
        self._form = form
        self._route = route
        self._offset = self._next_offset = route.context.request.topics[0].partitions[0].fetch_offset
        self._in_a_row = self._strangers = 0
        self._waiting: Context | None = None
        self._ended = False
        self.rests = False
        route.partition.watchers.add(self)

    def handle(self, connection: Connection, frame: memoryview) -> bool:
        """Answer a fetch, or let it wait; False, and nothing done, if it or its answer is of another kind."""
        matched = self._form.match(frame)
        if matched is None or self._waiting is not None:
            return self._leave()
        correlation_id, epoch, offset = matched
        if epoch != EPOCH_FINAL:
            return self._leave()
        route = self._route
        try:
            found = route.look(offset, final=False)
        except LONG_WAY:
            return self._leave()
        self._strangers = 0
        self._in_a_row = self._in_a_row + 1 if offset == self._next_offset else 0
        if found is None:
            self._wait(correlation_id, offset)
        else:
            self._count(found)
            connection.answer(ResponseSlot(), route.frame(correlation_id, found, connection.read_at))
        return True

    def __call__(self) -> None:
        """Something about the partition has changed: a waiting request looks again, a resting one may have asked for it."""
        slot = self._waiting
        if slot is None:
            if self.rests:
                self._route.connection.look()
            return
        try:
            found = self._route.look(self._offset, final=False)
        except LONG_WAY:
            self._finish(slot)
            return
        if found is not None:
            self._deliver(slot, found)

    def nothing_came(self) -> None:
        """There was news, and no request: the reader does not always wait."""
        self._in_a_row, self.rests = 0, False

    def end(self) -> None:
        """No requests any more; the one that waits, if one does, goes on waiting."""
        self._ended = True
        if self._waiting is None:
            self._route.partition.watchers.discard(self)

    def gives_way(self) -> bool:
        """Whether other requests have become usual, or what is known here is out of date."""
        return self._waiting is None and (self._strangers >= STRANGERS_MAX or not self._route.stands())

    def _count(self, found: LogRead) -> None:
        """Note what leaves. The next request is not expected to find anything if this leads to the end."""
        route = self._route
        route.count(found)
        self._next_offset = found.next_offset
        self.rests = self._in_a_row >= RESTS_AFTER and found.next_offset >= route.limit

    # -- waiting ----------------------------------------------------------------------------------------------

    def _wait(self, correlation_id: int, offset: int) -> None:
        route = self._route
        context = route.context
        self._offset = offset
        slot = RequestContext(context.dispatcher, route.connection, context.row, correlation_id, None)
        slot.on_abandon = self._abandon
        self._waiting = slot
        # Under no key: the partition calls for whatever else can end the wait.
        self._waiter = context.broker.purgatory.wait((), context.request.max_wait_ms, bool, self._expire)
        slot.park()

    def _expire(self) -> None:
        """Answer with what there is."""
        slot = self._waiting
        assert slot is not None
        try:
            found = self._route.look(self._offset, final=True)
        except LONG_WAY:
            self._finish(slot)
        else:
            assert found is not None
            self._deliver(slot, found)

    def _abandon(self) -> None:
        """The request no longer waits."""
        self._waiting = None
        self._waiter.cancel()
        if self._ended:
            self._route.partition.watchers.discard(self)

    def _deliver(self, slot: Context, found: LogRead) -> None:
        route = self._route
        self._abandon()
        self._count(found)
        if route.connection.closed:
            slot.parts = []
            return
        slot.parts = route.frame(slot.correlation_id, found, slot.started)
        route.connection.deliver()

    def _finish(self, slot: Context) -> None:
        """Answer the request that waits with what the long way finds now."""
        self._abandon()
        self._in_a_row, self.rests = 0, False
        slot.request = at_offset(self._route.context.request, self._offset)
        try:
            response = FullFetch(slot, slot.request, slot.broker.fetch_sessions).attempt(final=True)
        except Exception as error:  # noqa: BLE001 - whatever it is becomes an answer
            slot.fail(error)
        else:
            slot.respond(response)

    def _leave(self) -> bool:
        """Leave a request to the long way."""
        self._strangers += 1
        self._in_a_row, self.rests = 0, False
        return False


def remember(context: Context, frame: memoryview) -> None:
    """Remember a fetch that took the long way, after it was handled, if another like it needs not."""
    connection = context.connection
    shortcut = connection.shortcut
    if shortcut is not None and not (
        isinstance(shortcut, FetchShortcut | FetchSessionShortcut) and shortcut.gives_way()
    ):
        return
    request: FetchRequest = context.request
    unified = partition_of(context)
    session = session_of(context) if request.session_id else None
    if unified is None or (session is None and (request.session_id or request.session_epoch != EPOCH_FINAL)):
        return
    form = RequestForm.of(context, frame)
    if form is None:
        return
    route = FetchRoute(context, unified)
    if not route.stands():
        return
    if session is None:
        connection.remember(FetchShortcut(route, form))
    else:
        connection.remember(FetchSessionShortcut(route, form, session))
