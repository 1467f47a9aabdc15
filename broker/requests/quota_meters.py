"""The use of every quota, by client: kept as long as it matters, shown on ``/metrics`` under Kafka's names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import Final

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
"""So many are kept before it is looked for those in which nothing is left."""

Scope = tuple[str, str]
Labels = Mapping[str, str]


class MeterKind(StrEnum):
    """The measured kinds of use; the values are the quotas' keys."""

    PRODUCE = PRODUCER_BYTE_RATE
    FETCH = CONSUMER_BYTE_RATE
    REQUEST = REQUEST_PERCENTAGE


class Meter:
    """The bound, and how often and for how long it muted a client."""

    __slots__ = ("bound", "muted_until", "throttle_count", "throttle_seconds")

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
        self._rates: dict[tuple[str, Scope], RateMeter] = {}
        self._mutations: dict[Scope, MutationMeter] = {}
        self._addresses: dict[tuple[str, str], RateWindows] = {}
        self._looked_at = _METERS_MIN
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
        """Now and then, let go of what a new meter would do as well: names of clients must not fill the memory."""
        if len(self._rates) + len(self._mutations) + len(self._addresses) < self._looked_at:
            return
        now = self._monotonic()
        self._rates = {key: meter for key, meter in self._rates.items() if not meter.idle(now)}
        self._mutations = {key: meter for key, meter in self._mutations.items() if not meter.idle(now)}
        self._addresses = {key: windows for key, windows in self._addresses.items() if not windows.idle(now)}
        self._looked_at = max(_METERS_MIN, 2 * (len(self._rates) + len(self._mutations) + len(self._addresses)))

    # -- figures ----------------------------------------------------------------------------------------------

    def rates(self, kind: MeterKind) -> Iterator[tuple[Labels, float]]:
        """The use a second, by client."""
        now = self._monotonic()
        for (key, scope), meter in self._rates.items():
            if key == kind:
                yield _labels(scope), meter.windows.rate(now)

    def tokens(self) -> Iterator[tuple[Labels, float]]:
        """The tokens left of the quotas for changes of the cluster."""
        now = self._monotonic()
        for scope, meter in self._mutations.items():
            yield _labels(scope), meter.bucket.tokens(meter.bound, now)

    def waits_ms(self, key: str) -> Iterator[tuple[Labels, float]]:
        """The time for which a client is still muted."""
        now = self._monotonic()
        for scope, meter in self._of(key):
            yield _labels(scope), max(meter.muted_until - now, 0.0) * 1000

    def throttles(self) -> Iterator[tuple[Labels, float]]:
        """The number of times a client was muted, by quota."""
        for key in (*MeterKind, CONTROLLER_MUTATION_RATE):
            for scope, meter in self._of(key):
                yield {"quota": str(key), **_labels(scope)}, meter.throttle_count

    def _of(self, key: str) -> Iterable[tuple[Scope, Meter]]:
        if key == CONTROLLER_MUTATION_RATE:
            return self._mutations.items()
        return ((scope, meter) for (kind, scope), meter in self._rates.items() if kind == key)


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
