"""Quotas of clients at work: a client that has used too much gets its answer with a throttle time, and is muted for that time.

A client that keeps to ``throttle_time_ms`` notices nothing else; one that ignores it fills the socket of a connection
that is not read (KIP-219). Use is counted where a request arrives and where an answer leaves, so that handlers know
nothing of quotas, apart from three kinds: a fetch leaves empty while its quota is exceeded; changes of the cluster are
counted partition by partition, and refused by versions that know THROTTLING_QUOTA_EXCEEDED (KIP-599); a connection too
many of one address is held unheard and closed (KIP-612).

Clients without a quota pay for none of this: their connections have no `ClientQuotas`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeVar

from stratalog.broker.network.connection_services import Client
from stratalog.broker.network.server import Server
from stratalog.broker.requests.context import RequestContext, ServedBroker
from stratalog.broker.requests.quota_meters import Meter, MeterKind, Meters, MutationMeter, RateMeter
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.settings.config import BrokerConfig
from stratalog.metadata.controller.quotas import CONNECTION_CREATION_RATE
from stratalog.metadata.image.decision import Permit, no_limit
from stratalog.metadata.image.quotas_image import QuotasImage
from stratalog.metadata.quotas.resolution import NO_QUOTAS, QuotaTable
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.schema import Message

__all__ = ["ClientQuotas", "Quotas", "mutation_permit"]

AnswerT = TypeVar("AnswerT")

_PRODUCE_KEY: Final = 0
_WAIT_SECONDS_MIN: Final = 0.001
_THROTTLE_MS_MAX: Final = (1 << 31) - 1
"""No answer can tell a longer time, which is 24.8 days; a client that owes more waits again then."""
_PERCENT: Final = 100.0
_CLIENTS_MAX: Final = 4096
"""Clients whose quotas are remembered; looking them up again costs little."""


class ClientQuotas:
    """The quotas of one client, whatever its connections; None for what is not limited."""

    __slots__ = ("_monotonic", "_request_wait_max", "_sliced_seconds", "fetch", "mutation", "produce", "request")

    def __init__(self, meters: Meters, user: str, client_id: str, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._request_wait_max = meters.window_seconds
        self._sliced_seconds = 0.0
        self.produce = meters.rate(MeterKind.PRODUCE, user, client_id)
        self.fetch = meters.rate(MeterKind.FETCH, user, client_id)
        self.request = meters.rate(MeterKind.REQUEST, user, client_id)
        self.mutation = meters.mutation(user, client_id)

    @property
    def limited(self) -> bool:
        """Whether there is any."""
        return any(meter is not None for meter in (self.produce, self.fetch, self.request, self.mutation))

    def handle(self, connection: Client, api_key: int, size_bytes: int, handler: Callable[[], AnswerT]) -> AnswerT:
        """Let ``handler`` answer a request of so many bytes; count the request and the time it took."""
        begun, counted = self._monotonic(), self._sliced_seconds
        if self.produce is not None and api_key == _PRODUCE_KEY:
            self._use(self.produce, connection, size_bytes, begun)
        try:
            response = handler()
        finally:
            if self.request is not None:
                now = self._monotonic()
                seconds = now - begun - (self._sliced_seconds - counted)
                self._use(self.request, connection, seconds * _PERCENT, now, self._request_wait_max)
        if isinstance(response, Message):
            self.mark(connection, response)
        return response

    def spend(self, connection: Client, seconds: float) -> None:
        """Count time that a request of the connection took in slices, in this turn of the loop."""
        if self.request is not None:
            self._sliced_seconds += seconds
            self._use(self.request, connection, seconds * _PERCENT, self._monotonic(), self._request_wait_max)

    def mark(self, connection: Client, response: Message) -> None:
        """Tell the client for how long it will not be heard."""
        seconds = connection.muted_until - self._monotonic()
        if seconds > 0 and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = math.ceil(min(seconds * 1000, _THROTTLE_MS_MAX))

    def fetch_bytes_max(self) -> float:
        """More than this would be too much even for a client that has not fetched for long."""
        return math.inf if self.fetch is None else self.fetch.burst

    def may_fetch(self, connection: Client, size_bytes: int) -> bool:
        """Count an answer with records; False, and nothing is counted, while what left before is still too much.

        An answer that is too much itself leaves, as a request that is too much is handled: the client pays afterwards.
        Otherwise a batch larger than all that a quota allows at once could never be read.
        """
        meter = self.fetch
        if meter is None:
            return True
        now = self._monotonic()
        wait = meter.windows.wait_seconds(meter.bound, now)
        if wait < _WAIT_SECONDS_MIN:
            self._use(meter, connection, size_bytes, now)
            return True
        _mute(meter, connection, wait, now)
        return False

    def _use(self, meter: RateMeter, connection: Client, amount: float, now: float, wait_max: float = math.inf) -> None:
        """Count an amount; if that is too much, the connection is not heard for a while."""
        _mute(meter, connection, min(meter.windows.use(amount, meter.bound, now), wait_max), now)

    def permit(self, connection: Client, *, strict: bool) -> Permit:
        """The permit that changes of the cluster ask. ``strict``: they are
        refused once the quota is used up, else only throttled.
        """
        meter = self.mutation
        return no_limit if meter is None else lambda count: self._mutate(meter, connection, count, strict=strict)

    def _mutate(self, meter: MutationMeter, connection: Client, count: int, *, strict: bool) -> None:
        now = self._monotonic()
        bucket, bound = meter.bucket, meter.bound
        refused = strict and bucket.tokens(bound, now) < 0
        if not refused:
            bucket.take(count, bound, now)
        _mute(meter, connection, 0.0 if strict and not refused else bucket.wait_seconds(bound, now), now)
        if refused:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")


def _mute(meter: Meter, connection: Client, wait: float, now: float) -> None:
    """The client of the meter is not heard for so many seconds, if that is worth the while."""
    wait = min(wait, _THROTTLE_MS_MAX / 1000)
    if wait >= _WAIT_SECONDS_MIN:
        meter.throttled(wait, now)
        connection.mute_until(now + wait)


def mutation_permit(context: RequestContext[ServedBroker], strict_since: int) -> Permit:
    """For a request that changes the cluster; from version ``strict_since`` on its client knows the error."""
    connection = context.connection
    quota = connection.quota
    return no_limit if quota is None else quota.permit(connection, strict=context.api_version >= strict_since)


class Quotas:
    """The quotas of a broker: those of the image, and what is used of them."""

    def __init__(self, config: BrokerConfig, clock: Clock, metrics: Metrics, server: Server) -> None:
        """``server`` asks these quotas from now on."""
        self._monotonic = clock.monotonic
        self._server = server
        server.use_quotas(self.of, self.connection_wait)
        self._meters = Meters(config, clock, metrics)
        self._image = QuotasImage()
        self._table = NO_QUOTAS
        self._clients: dict[tuple[str, str], ClientQuotas | None] = {}

    def follow(self, image: QuotasImage) -> None:
        """Put the quotas of an image in force, for connections that are there, too. Earlier use stays counted."""
        if image is self._image:
            return
        self._image = image
        self._table = self._meters.table = QuotaTable(image)
        self._clients.clear()
        self._server.limit_anew()

    def of(self, connection: Client) -> ClientQuotas | None:
        """The quotas of a connection's client; None if nothing limits it."""
        if not self._table.clients:
            return None
        pair = (connection.principal.partition(":")[2], connection.client_id or "")
        if pair not in self._clients:
            if len(self._clients) >= _CLIENTS_MAX:
                self._clients.clear()
            quotas = ClientQuotas(self._meters, *pair, self._monotonic)
            self._clients[pair] = quotas if quotas.limited else None
        return self._clients[pair]

    def connection_wait(self, address: str) -> float:
        """Count a new connection; for how long to hold it unheard before it is closed, 0 if it may stay."""
        bound = self._table.of_address(address) if self._table.addresses else None
        if bound is None:
            return 0.0
        now = self._monotonic()
        windows = self._meters.of_address(CONNECTION_CREATION_RATE, address)
        wait = windows.use(1, bound, now)
        if wait:
            windows.give_back(1, bound, now)
        return min(wait, self._meters.window_seconds)
