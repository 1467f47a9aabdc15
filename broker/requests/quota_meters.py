"""The use of every quota, by client: kept as long as it matters, shown on ``/metrics`` under Kafka's names."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import Final, Protocol, TypeVar
from weakref import ref

from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.settings.config import BrokerConfig
from stratalog.metadata.controller.quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from stratalog.metadata.quotas.resolution import NO_QUOTAS
from stratalog.metadata.quotas.windows import RateWindows, TokenBucket

__all__ = ["Meter", "MeterKind", "Meters", "MutationMeter", "RateMeter"]

_METERS_MIN: Final = 1024
"""So many are kept before those in which nothing is left are looked for."""

_LOOKED_AT: Final = 2
"""More than one for each new meter: the idle ones become fewer."""
_ROWS_AT_ONCE: Final = 500
"""Rows of figures between two pauses."""

K = TypeVar("K")
T = TypeVar("T")
M = TypeVar("M", bound="Forgettable")


class Forgettable(Protocol):
    """The use of something, which ends by itself."""

    def idle(self, now: float, /) -> bool:
        """Whether a new one would be the same."""


Scope = tuple[str, str]
Labels = Mapping[str, str]
Row = tuple[Labels, float]


class MeterKind(StrEnum):
    """The measured kinds of use; the values are the quotas' keys."""

    PRODUCE = PRODUCER_BYTE_RATE
    FETCH = CONSUMER_BYTE_RATE
    REQUEST = REQUEST_PERCENTAGE


class Meter:
    """The bound, and how often and for how long it muted a client."""

    __slots__ = ("__weakref__", "bound", "muted_until", "throttle_count", "throttle_seconds")

    def __init__(self, bound: float) -> None:
        self.bound = bound
        self.throttle_count = 0
        self.throttle_seconds = 0.0
        self.muted_until = 0.0

    def throttled(self, seconds: float, now: float) -> None:
        """A connection is not heard for so long."""
        self.throttle_count += 1
        self.throttle_seconds += seconds
        self.muted_until = max(self.muted_until, now + seconds)


class RateMeter(Meter):
    """A rate, in bytes or in percent of the loop's time, a second."""

    __slots__ = ("windows",)

    def __init__(self, bound: float, windows: RateWindows) -> None:
        super().__init__(bound)
        self.windows = windows

    @property
    def burst(self) -> float:
        """The amount that may be used at once."""
        return self.bound * self.windows.burst_seconds

    def idle(self, now: float) -> bool:
        """Whether a new meter would be the same."""
        return self.windows.idle(now)


class MutationMeter(Meter):
    """Changes of the cluster, in partitions a second."""

    __slots__ = ("bucket",)

    def __init__(self, bound: float, bucket: TokenBucket) -> None:
        super().__init__(bound)
        self.bucket = bucket

    def idle(self, now: float) -> bool:
        """Whether a new meter would be the same."""
        return self.bucket.tokens(self.bound, now) >= self.bound * self.bucket.capacity_seconds


class Meters:
    """The meters by quota and scope. ``table`` says which of them hold for whom."""

    def __init__(self, config: BrokerConfig, clock: Clock, metrics: Metrics) -> None:
        self._monotonic = clock.monotonic
        self._window_count = config.integer("quota.window.num")
        self.window_seconds = float(config.integer("quota.window.size.seconds"))
        """Kafka's ``quota.window.size.seconds``: no client waits longer for a request's time or a connection."""
        self._mutation_seconds = float(
            config.integer("controller.quota.window.num") * config.integer("controller.quota.window.size.seconds")
        )
        self.table = NO_QUOTAS
        self._rates: OrderedDict[tuple[str, Scope], RateMeter] = OrderedDict()
        self._mutations: OrderedDict[Scope, MutationMeter] = OrderedDict()
        self._addresses: OrderedDict[tuple[str, str], RateWindows] = OrderedDict()
        _add_figures(self, metrics)

    def rate(self, kind: MeterKind, user: str, client_id: str) -> RateMeter | None:
        """The meter of a client; None where nothing limits it."""
        quota = self.table.of_client(kind, user, client_id)
        if quota is None:
            return None
        meter = self._rates.get((kind, quota.scope))
        if meter is None:
            self._forget_idle()
            meter = self._rates[kind, quota.scope] = RateMeter(quota.bound, self._windows())
        meter.bound = quota.bound
        return meter

    def mutation(self, user: str, client_id: str) -> MutationMeter | None:
        """The meter of a client's changes of the cluster; None where nothing limits them."""
        quota = self.table.of_client(CONTROLLER_MUTATION_RATE, user, client_id)
        if quota is None:
            return None
        meter = self._mutations.get(quota.scope)
        if meter is None:
            self._forget_idle()
            meter = self._mutations[quota.scope] = MutationMeter(quota.bound, TokenBucket(self._mutation_seconds))
        meter.bound = quota.bound
        return meter

    def of_address(self, key: str, address: str) -> RateWindows:
        """An address's use of the quota called ``key``."""
        windows = self._addresses.get((key, address))
        if windows is None:
            self._forget_idle()
            windows = self._addresses[key, address] = self._windows()
        return windows

    def _windows(self) -> RateWindows:
        return RateWindows(self._window_count, self.window_seconds)

    def _forget_idle(self) -> None:
        """Let go of some that a new meter would do as well as: names of clients must not fill the memory.

        For each new one some old ones are looked at, in turn, so that no request pays for all of them.
        """
        if len(self._rates) + len(self._mutations) + len(self._addresses) < _METERS_MIN:
            return
        now = self._monotonic()
        _forget_some(self._rates, now)
        _forget_some(self._mutations, now)
        _forget_some(self._addresses, now)

    # -- figures ----------------------------------------------------------------------------------------------

    def rates(self, kind: MeterKind) -> Iterator[Row | None]:
        """The use a second, by client."""
        now = self._monotonic()
        for each in _paced(self._rates.items()):
            if each is None:
                yield None
            elif each[0][0] == kind:
                yield _labels(each[0][1]), each[1].windows.rate(now)

    def tokens(self) -> Iterator[Row | None]:
        """The tokens left of the quotas for changes of the cluster."""
        now = self._monotonic()
        for each in _paced(self._mutations.items()):
            if each is None:
                yield None
                continue
            scope, meter = each
            yield _labels(scope), meter.bucket.tokens(meter.bound, now)

    def waits_ms(self, key: str) -> Iterator[Row | None]:
        """The time for which a client is still muted."""
        now = self._monotonic()
        for each in self._of(key):
            yield each and (_labels(each[0]), max(each[1].muted_until - now, 0.0) * 1000)

    def throttles(self) -> Iterator[Row | None]:
        """The number of times a client was muted, by quota."""
        for key in (*MeterKind, CONTROLLER_MUTATION_RATE):
            for each in self._of(key):
                yield each and ({"quota": str(key), **_labels(each[0])}, each[1].throttle_count)

    def _of(self, key: str) -> Iterator[tuple[Scope, Meter] | None]:
        if key == CONTROLLER_MUTATION_RATE:
            yield from _paced(self._mutations.items())
            return
        for each in _paced(self._rates.items()):
            if each is None:
                yield None
            elif each[0][0] == key:
                yield each[0][1], each[1]


def _forget_some(meters: OrderedDict[K, M], now: float) -> None:
    """Let go of the first ones that are idle and that no client holds; the others are the last ones from now on."""
    for _ in range(min(_LOOKED_AT, len(meters))):
        key, meter = meters.popitem(last=False)
        if meter.idle(now):
            held = ref(meter)
            del meter
            kept = held()
            if kept is None:
                continue
            meter = kept
        meters[key] = meter


def _paced(items: Iterable[T]) -> Iterator[T | None]:
    """The present items, and None where the loop may do something else."""
    for at, item in enumerate(list(items), 1):
        yield item
        if at % _ROWS_AT_ONCE == 0:
            yield None


def _labels(scope: Scope) -> Labels:
    return {"user": scope[0], "client_id": scope[1]}


def _add_figures(meters: Meters, metrics: Metrics) -> None:
    figures = (
        (MeterKind.PRODUCE, "produce", "byte_rate", "Produce,user=,client-id= byte-rate"),
        (MeterKind.FETCH, "fetch", "byte_rate", "Fetch,user=,client-id= byte-rate"),
        (MeterKind.REQUEST, "request", "request_time", "Request,user=,client-id= request-time: percent of one core"),
    )
    for kind, name, attribute, text in figures:
        metrics.add_gauge(f"kafka_server_{name}_{attribute}", f"kafka.server:type={text}.", partial(meters.rates, kind))
    metrics.add_gauge(
        "kafka_server_controllermutation_tokens",
        "kafka.server:type=ControllerMutation,user=,client-id= tokens.",
        meters.tokens,
    )
    keys = (*((kind, name) for kind, name, _, _ in figures), (CONTROLLER_MUTATION_RATE, "controllermutation"))
    for key, name in keys:
        metrics.add_gauge(
            f"kafka_server_{name}_throttle_time",
            "Milliseconds for which connections of the client are still not read.",
            partial(meters.waits_ms, key),
        )
    metrics.add_counter(
        "stratalog_quota_throttles", "How often connections were not read because of a quota.", meters.throttles
    )
