"""Figures for ``/metrics``: plain integers that the hot path adds to, named on demand.

Names are Kafka's MBeans as the usual JMX exporter rules print them (``kafka.server:type=BrokerTopicMetrics,
name=BytesInPerSec,topic=t`` becomes ``kafka_server_brokertopicmetrics_bytesin_total{topic="t"}``), so that
existing dashboards light up. Figures without a name in Kafka begin with ``stratalog_``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Sequence

from stratalog.broker.runtime.families import Family, Kind, Labels, Samples

__all__ = ["ApiMetrics", "Metrics", "NetworkMetrics", "TopicMetrics"]

_TIME_BUCKETS = 64
"""Bucket ``i`` counts times below ``2**i`` microseconds, so that the index is the number's bit length."""

_TIME_BUCKETS_SHOWN = 26
"""Those above (33 s) are one bucket in the exposition."""


class TopicMetrics:
    """The events of one topic on this broker. Bytes, messages and requests since start; lags are present values."""

    __slots__ = (
        "build_remote_log_aux_state_errors",
        "build_remote_log_aux_state_requests",
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetch_requests",
        "failed_produce_requests",
        "messages_in",
        "produce_message_conversions",
        "remote_copy_bytes",
        "remote_copy_errors",
        "remote_copy_lag_bytes",
        "remote_copy_lag_segments",
        "remote_copy_requests",
        "remote_delete_errors",
        "remote_delete_lag_bytes",
        "remote_delete_lag_segments",
        "remote_delete_requests",
        "remote_fetch_bytes",
        "remote_fetch_errors",
        "remote_fetch_requests",
        "remote_log_metadata_count",
        "remote_log_size_bytes",
        "total_fetch_requests",
        "total_produce_requests",
    )

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    bytes_in: int
    bytes_out: int
    bytes_rejected: int
    messages_in: int
    total_produce_requests: int
    total_fetch_requests: int
    failed_produce_requests: int
    failed_fetch_requests: int
    produce_message_conversions: int
    remote_fetch_bytes: int
    remote_fetch_requests: int
    remote_fetch_errors: int
    remote_copy_bytes: int
    remote_copy_requests: int
    remote_copy_errors: int
    remote_copy_lag_bytes: int
    remote_copy_lag_segments: int
    remote_delete_requests: int
    remote_delete_errors: int
    remote_delete_lag_bytes: int
    remote_delete_lag_segments: int
    build_remote_log_aux_state_requests: int
    build_remote_log_aux_state_errors: int
    remote_log_metadata_count: int
    remote_log_size_bytes: int


# Kafka's MBean attribute (without "PerSec") by ours: counters, then gauges.
_TOPIC_COUNTERS = {
    "bytes_in": "BytesIn",
    "bytes_out": "BytesOut",
    "bytes_rejected": "BytesRejected",
    "messages_in": "MessagesIn",
    "total_produce_requests": "TotalProduceRequests",
    "total_fetch_requests": "TotalFetchRequests",
    "failed_produce_requests": "FailedProduceRequests",
    "failed_fetch_requests": "FailedFetchRequests",
    "produce_message_conversions": "ProduceMessageConversions",
    "remote_fetch_bytes": "RemoteFetchBytes",
    "remote_fetch_requests": "RemoteFetchRequests",
    "remote_fetch_errors": "RemoteFetchErrors",
    "remote_copy_bytes": "RemoteCopyBytes",
    "remote_copy_requests": "RemoteCopyRequests",
    "remote_copy_errors": "RemoteCopyErrors",
    "remote_delete_requests": "RemoteDeleteRequests",
    "remote_delete_errors": "RemoteDeleteErrors",
    "build_remote_log_aux_state_requests": "BuildRemoteLogAuxStateRequests",
    "build_remote_log_aux_state_errors": "BuildRemoteLogAuxStateErrors",
}
_TOPIC_GAUGES = {
    "remote_copy_lag_bytes": "RemoteCopyLagBytes",
    "remote_copy_lag_segments": "RemoteCopyLagSegments",
    "remote_delete_lag_bytes": "RemoteDeleteLagBytes",
    "remote_delete_lag_segments": "RemoteDeleteLagSegments",
    "remote_log_metadata_count": "RemoteLogMetadataCount",
    "remote_log_size_bytes": "RemoteLogSizeBytes",
}


class ApiMetrics:
    """Requests of one API key in one version: their number, failures and times from receipt to answer.

    ``Row.answer`` adds to ``time_us`` and to the bucket of the time: it runs once per request.
    """

    __slots__ = ("api", "errors", "time_buckets", "time_us", "version")

    def __init__(self, api: str, version: int) -> None:
        self.api = api
        self.version = version
        self.errors = 0
        self.time_us = 0
        self.time_buckets = [0] * _TIME_BUCKETS

    @property
    def requests(self) -> int:
        """Requests answered, or handled where no answer is wanted."""
        return sum(self.time_buckets)


class NetworkMetrics:
    """The events of the sockets since start."""

    __slots__ = (
        "bytes_received",
        "bytes_sent",
        "cold_reads",
        "connections_accepted",
        "connections_closed",
        "connections_expired",
        "connections_refused",
        "copied_file_bytes",
        "frames_refused",
        "sendfile_bytes",
    )

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    bytes_received: int
    bytes_sent: int
    cold_reads: int
    connections_accepted: int
    connections_closed: int
    connections_expired: int
    connections_refused: int
    copied_file_bytes: int
    frames_refused: int
    sendfile_bytes: int


_NETWORK_TEXTS = {
    "bytes_received": "Bytes read from clients.",
    "bytes_sent": "Bytes handed to the sockets of clients.",
    "cold_reads": "File slices that were not in the page cache and were read ahead in a thread.",
    "connections_accepted": "Connections accepted.",
    "connections_closed": "Connections that have ended.",
    "connections_expired": "Connections closed because they were idle, too slow or not authenticated in time.",
    "connections_refused": "Connections closed at once because of a connection limit.",
    "copied_file_bytes": "Bytes of file slices that were read and written (small slices, TLS).",
    "frames_refused": "Connections closed because of a frame that cannot be served.",
    "sendfile_bytes": "Bytes of file slices that the kernel sent with sendfile.",
}


class Metrics:
    """All figures of one broker, and their Prometheus text."""

    def __init__(self) -> None:
        self.network = NetworkMetrics()
        self.topics: dict[str, TopicMetrics] = {}
        self.apis: dict[tuple[str, int], ApiMetrics] = {}
        self._extra: dict[tuple[str, Kind], tuple[str, list[Samples]]] = {}
        self._refreshing: list[Callable[[], Iterator[None]]] = []

    def topic(self, name: str) -> TopicMetrics:
        """The figures of a topic; they exist from the first call on."""
        metrics = self.topics.get(name)
        if metrics is None:
            metrics = self.topics[name] = TopicMetrics()
        return metrics

    def forget_topic(self, name: str) -> None:
        """Drop the figures of a deleted topic."""
        self.topics.pop(name, None)

    def api(self, name: str, version: int) -> ApiMetrics:
        """The figures of an API key in one version."""
        metrics = self.apis.get((name, version))
        if metrics is None:
            metrics = self.apis[name, version] = ApiMetrics(name, version)
        return metrics

    def before_collecting(self, refresh: Callable[[], Iterator[None]]) -> None:
        """Have figures brought up to date at each scrape; ``refresh`` yields where it may pause."""
        self._refreshing.append(refresh)

    def add_gauge(self, name: str, text: str, samples: Samples) -> None:
        """A present value that is asked for at each scrape: pairs of labels and number.

        A name may be added again, by another server of the same process: values of equal labels are added up.
        """
        self._extra.setdefault((name, Kind.GAUGE), (text, []))[1].append(samples)

    def add_counter(self, name: str, text: str, samples: Samples) -> None:
        """A number that only grows, asked for at each scrape; ``name`` without ``_total``. It may be added again, too."""
        self._extra.setdefault((name, Kind.COUNTER), (text, []))[1].append(samples)

    def exposition(self) -> Iterator[bytes | None]:
        """The Prometheus text of everything in parts; a None among them is a place for a pause.

        Figures go on changing between the parts.
        """
        from stratalog.broker.runtime.exposition import exposition  # noqa: PLC0415 - see there

        return exposition(self._families())

    def render(self) -> bytes:
        """The whole text at once; it may hold the loop."""
        return b"".join(part for part in self.exposition() if part)

    def _families(self) -> Iterator[Family | None]:
        """One family after another; None for a pause. Figures that were brought up to date come first."""
        for refresh in self._refreshing:
            yield from refresh()
        for (name, kind), (text, samples) in self._extra.items():
            rows = yield from _added_up(samples)
            names = tuple(rows[0][0]) if rows else ()
            yield Family(kind, name, text, names, _rows(names, rows))
        for name, text in _NETWORK_TEXTS.items():
            yield Family(Kind.COUNTER, f"stratalog_network_{name}", text, (), [((), getattr(self.network, name))])
        yield from self._topic_families()
        yield from self._api_families()

    def _topic_families(self) -> Iterator[Family]:
        topics = list(self.topics.items())
        for names, kind in ((_TOPIC_COUNTERS, Kind.COUNTER), (_TOPIC_GAUGES, Kind.GAUGE)):
            for attribute, kafka in names.items():
                yield Family(
                    kind,
                    f"kafka_server_brokertopicmetrics_{kafka.lower()}",
                    f"kafka.server:type=BrokerTopicMetrics,name={kafka}, by topic.",
                    ("topic",),
                    (((topic,), getattr(metrics, attribute)) for topic, metrics in topics),
                )

    def _api_families(self) -> Iterator[Family]:
        # Versions that were never asked are left out: there are hundreds of them.
        asked = [metrics for metrics in self.apis.values() if any(metrics.time_buckets)]
        yield Family(
            Kind.COUNTER,
            "kafka_network_requestmetrics_requests",
            "kafka.network:type=RequestMetrics,name=RequestsPerSec.",
            ("request", "version"),
            [((metrics.api, str(metrics.version)), metrics.requests) for metrics in asked],
        )
        yield Family(
            Kind.COUNTER,
            "kafka_network_requestmetrics_errors",
            "kafka.network:type=RequestMetrics,name=ErrorsPerSec: requests that failed as a whole.",
            ("request", "version"),
            [((one.api, str(one.version)), one.errors) for one in self.apis.values() if one.errors],
        )
        by_name: dict[str, list[ApiMetrics]] = {}
        for metrics in asked:
            by_name.setdefault(metrics.api, []).append(metrics)
        yield Family(
            Kind.HISTOGRAM,
            "kafka_network_requestmetrics_totaltimems",
            "kafka.network:type=RequestMetrics,name=TotalTimeMs: milliseconds from receipt to answer.",
            ("request",),
            [((name,), _times(versions)) for name, versions in by_name.items()],
        )


def _times(versions: list[ApiMetrics]) -> tuple[list[tuple[str, float]], float]:
    """The buckets of all versions of an API together, and the sum in milliseconds."""
    counts = [sum(column) for column in zip(*(metrics.time_buckets for metrics in versions), strict=True)]
    return _cumulative(counts), sum(metrics.time_us for metrics in versions) / 1000


def _cumulative(counts: list[int]) -> list[tuple[str, float]]:
    """Prometheus buckets (upper bound in milliseconds, count below it) of power-of-two microsecond buckets."""
    buckets: list[tuple[str, float]] = []
    total = 0
    for index, count in enumerate(counts[:_TIME_BUCKETS_SHOWN]):
        total += count
        buckets.append((f"{2**index / 1000:g}", total))
    buckets.append(("+Inf", sum(counts)))
    return buckets


def _rows(names: Sequence[str], rows: Sequence[tuple[Labels, float]]) -> Iterator[tuple[tuple[str, ...], float]]:
    return ((tuple(labels[each] for each in names), value) for labels, value in rows)


def _added_up(samples: Sequence[Samples]) -> Generator[None, None, list[tuple[Labels, float]]]:
    """The rows of all of them, those of equal labels as one; yields where it may pause."""
    found: dict[tuple[str, ...], tuple[Labels, float]] = {}
    for each in samples:
        for row in each():
            if row is None:
                yield None
                continue
            labels, value = row
            key = tuple(itertools.chain.from_iterable(labels.items()))
            found[key] = (labels, found[key][1] + value if key in found else value)
    return list(found.values())
