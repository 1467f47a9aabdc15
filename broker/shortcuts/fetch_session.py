"""Fetches of a session with one partition, handled without decoding them as long as there is something to be read.

A consumer that is busy reading one partition names it in every request, with its new offset and the next epoch of its
session (KIP-227). The session's memory (`stratalog.metadata.fetch_sessions.fetch_session`) is kept as the long way
keeps it; that way is taken whenever there is no record to be read, or anything but records to be answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stratalog.broker.api.broker_view import Context
from stratalog.broker.fetches.fetch_attempt import TOPIC_IDS_SINCE
from stratalog.broker.shortcuts.fetch_route import LONG_WAY, FetchRoute, RequestForm
from stratalog.metadata.fetch_sessions.fetch_session import FetchSession
from stratalog.wire.frame import ResponseSlot
from stratalog.wire.messages.fetch import FetchRequest

if TYPE_CHECKING:
    from stratalog.broker.network.connection import Connection

__all__ = ["FetchSessionShortcut", "session_of"]

STRANGERS_MAX: Final = 8
"""After so many requests in a row of another form what is remembered gives way to what has become usual."""


class FetchSessionShortcut:
    """The common part of a session's requests."""

    __slots__ = ("_form", "_partition", "_route", "_session", "_sessions", "_strangers")

    rests = False

    def __init__(self, route: FetchRoute, form: RequestForm, session: FetchSession) -> None:
        """Requests of this form take the ``route``, to the only partition of ``session``."""
        self._form = form
        self._route = route
        self._session = session
        self._sessions = route.context.broker.fetch_sessions
        (self._partition,) = session.partitions.values()
        self._strangers = 0

    def handle(self, connection: Connection, frame: memoryview) -> bool:
        """Answer a fetch; False, and nothing done, if it or its answer is of another kind."""
        matched = self._form.match(frame)
        if matched is None:
            self._strangers += 1
            return False
        self._strangers = 0
        correlation_id, epoch, offset = matched
        session, partition, route = self._session, self._partition, self._route
        if not self._sessions.may_go_on(session, epoch) or session.only_partition is not partition:
            return False
        try:
            found = route.look(offset, final=False)
        except LONG_WAY:
            return False
        if found is None:
            return False
        self._sessions.go_on(session)
        replica = route.partition
        session.tell_records(
            partition,
            offset,
            high_watermark=replica.high_watermark,
            last_stable_offset=replica.last_stable_offset,
            log_start_offset=replica.log.log_start_offset,
        )
        route.count(found)
        connection.answer(ResponseSlot(), route.frame(correlation_id, found, connection.read_at))
        return True

    def nothing_came(self) -> None:
        """Do nothing: it never rests."""

    def end(self) -> None:
        """Do nothing: there is nothing to give back."""

    def gives_way(self) -> bool:
        """Whether other requests have become usual, or what is known here is out of date."""
        session = self._session
        return (
            self._strangers >= STRANGERS_MAX
            or session.only_partition is not self._partition
            or not self._sessions.knows(session)
            or not self._route.stands()
        )


def session_of(context: Context) -> FetchSession | None:
    """The session that a request goes on with, if it is of one partition, and named as the request names it."""
    request: FetchRequest = context.request
    session = context.broker.fetch_sessions.cache.get(request.session_id)
    if session is None or session.by_id != (context.api_version >= TOPIC_IDS_SINCE):
        return None
    return session if request.session_epoch > 0 and session.only_partition is not None else None
