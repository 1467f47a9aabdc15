"""The figures of a replica of the metadata log, by the names of Kafka's ``KafkaRaftMetrics`` and ``BrokerServerMetrics``.

Every node has those of its replica; a broker also has those of the image that it serves from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from stratalog.broker.quorum.raft_figures import RaftFigures
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.raft.raft import Raft
from stratalog.metadata.raft.states import Candidate, Follower, Leader, Prospective, Unattached

__all__ = ["AppliedLog", "Replica", "add_applied_metrics", "add_raft_metrics"]

_NOBODY = -1


class Replica(Protocol):
    """A replica of the metadata log, as far as figures go."""

    @property
    def node_id(self) -> int:
        """The id of this node."""

    @property
    def figures(self) -> RaftFigures:
        """Its latest work, counted."""


class AppliedLog(Protocol):
    """The image of a node, as far as figures go."""

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""

    @property
    def load_errors(self) -> int:
        """Records that could not be read or applied."""

    @property
    def apply_errors(self) -> int:
        """Images that a part of this node could not follow."""


def add_raft_metrics(metrics: Metrics, replica: Replica, clock: Clock) -> None:
    """Add the figures of a replica; each costs its voters at most."""
    figures = replica.figures

    def now_ms() -> int:
        return int(clock.monotonic() * 1000)

    def state() -> Iterable[tuple[Mapping[str, str], float]]:
        return [] if figures.raft is None else [({"current_state": state_name(figures.raft)}, 1)]

    def of_raft(value: Callable[[Raft], float | None]) -> Callable[[], float | None]:
        return lambda: None if figures.raft is None else value(figures.raft)

    metrics.add_gauge(
        "kafka_server_raftmetrics_current_state",
        "kafka.server:type=raft-metrics,current-state: leader, candidate, prospective, follower, observer, unattached.",
        state,
    )
    values: dict[str, tuple[str, Callable[[], float | None]]] = {
        "current-leader": ("The leader, -1 while it is not known.", of_raft(lambda raft: raft.leader[0])),
        "current-vote": (
            "The node that has this node's vote in the epoch; -1: none.",
            of_raft(lambda raft: vote_of(raft, replica.node_id)),
        ),
        "current-epoch": ("The epoch of the quorum.", of_raft(lambda raft: raft.role.epoch)),
        "high-watermark": ("Records below it are committed; -1 while it is not known.", of_raft(lambda raft: raft.high_watermark)),
        "log-end-offset": ("The end of this node's log.", of_raft(lambda raft: raft.log.end_offset)),
        "log-end-epoch": ("The epoch of its last record.", of_raft(lambda raft: raft.log.last_epoch)),
        "number-unknown-voter-connections": (
            "Other voters whose address is not known.",
            of_raft(lambda raft: sum(not one.endpoints for one in raft.log.voters if one.key.id != replica.node_id)),
        ),
        "number-of-voters": ("Voters.", of_raft(lambda raft: len(raft.log.voters))),
        "number-of-observers": ("Observers that the leader knows of; on the leader alone.", of_raft(observers_of)),
        "uncommitted-voter-change": (
            "1 while a change of the voters is in the log and not committed; on the leader alone.",
            of_raft(uncommitted_change_of),
        ),
        "commit-latency-avg": ("Milliseconds to the commit of a record, mean of a minute.", lambda: figures.commit_ms.average(now_ms())),
        "commit-latency-max": ("The largest of them.", lambda: figures.commit_ms.maximum(now_ms())),
        "election-latency-avg": ("Milliseconds to a new leader, mean of a minute.", lambda: figures.election_ms.average(now_ms())),
        "election-latency-max": ("The largest of them.", lambda: figures.election_ms.maximum(now_ms())),
        "fetch-records-rate": ("Records a second taken over from the leader.", lambda: figures.fetched.per_second(now_ms())),
        "append-records-rate": ("Records a second appended as leader.", lambda: figures.appended.per_second(now_ms())),
        "poll-idle-ratio-avg": ("The part of the time without work.", lambda: figures.idle_ratio(now_ms())),
    }  # fmt: skip
    for name, (text, value) in values.items():
        _add(metrics, "raftmetrics", "raft-metrics", name, text, value)


def add_applied_metrics(metrics: Metrics, applied: AppliedLog, clock: Clock) -> None:
    """Add the figures of the image that a broker serves from."""

    def lag_ms() -> float:
        written_ms = applied.image.provenance.timestamp_ms
        return 0 if written_ms < 0 else max(0, clock.wall_ms() - written_ms)

    values: dict[str, tuple[str, Callable[[], float | None]]] = {
        "last-applied-record-offset": ("The last record in the image.", lambda: applied.image.provenance.offset),
        "last-applied-record-timestamp": (
            "Its time, in milliseconds.",
            lambda: applied.image.provenance.timestamp_ms,
        ),
        "last-applied-record-lag-ms": ("Its age, in milliseconds.", lag_ms),
        "metadata-load-error-count": ("Records that could not be applied.", lambda: applied.load_errors),
        "metadata-apply-error-count": ("Images that could not be followed.", lambda: applied.apply_errors),
    }
    for name, (text, value) in values.items():
        _add(metrics, "brokermetadatametrics", "broker-metadata-metrics", name, text, value)


def _add(
    metrics: Metrics, group: str, kafkas_group: str, name: str, text: str, value: Callable[[], float | None]
) -> None:
    def samples() -> Iterable[tuple[Mapping[str, str], float]]:
        found = value()
        return [] if found is None else [({}, found)]

    metrics.add_gauge(
        f"kafka_server_{group}_{name.replace('-', '_')}", f"kafka.server:type={kafkas_group},{name}. {text}", samples
    )


def state_name(raft: Raft) -> str:
    """The node's part in the quorum, in Kafka's words."""
    role = raft.role
    voted = role.voted is not None
    if isinstance(role, Leader):
        return "leader"
    if isinstance(role, Prospective):
        return "prospective-voted" if voted else "prospective"
    if isinstance(role, Candidate):
        return "candidate"
    if isinstance(role, Follower):
        return "follower" if raft.is_voter else "observer"
    return "unattached-voted" if isinstance(role, Unattached) and voted else "unattached"


def vote_of(raft: Raft, me: int) -> int:
    """Whom the node has voted for in its epoch; a leader has voted for itself."""
    if isinstance(raft.role, Leader):
        return me
    return _NOBODY if raft.role.voted is None else raft.role.voted.id


def observers_of(raft: Raft) -> float | None:
    """How many observers fetch; None where this node does not lead."""
    role, voters = raft.role, raft.log.voters
    if not isinstance(role, Leader):
        return None
    return sum(not voters.has(one.key) for one in role.progress.replicas)


def uncommitted_change_of(raft: Raft) -> float | None:
    """1 while the newest voters are not committed, else 0; None where this node does not lead."""
    return int(raft.log.voters_offset >= max(raft.high_watermark, 0)) if isinstance(raft.role, Leader) else None
