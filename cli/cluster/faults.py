"""The faults of a cluster, a sentence each: nodes, partitions without a leader, full disks, replicas that are not in sync and why.

Pure, and bounded: of many partitions the first ones are named and the others counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from stratalog.cli.output import bytes_text
from stratalog.client.full_disks import FullDisk
from stratalog.client.out_of_sync import OutOfSync, Why
from stratalog.client.quorum import Quorum

__all__ = ["NAMED_MAX", "SILENT_FROM_MS", "disk_faults", "leader_faults", "node_faults", "replica_faults"]

SILENT_FROM_MS: Final = 10_000
"""A voter fetches every half second; one that has not for this long is away, or cannot reach the leader."""
NAMED_MAX: Final = 20
"""Partitions that a sentence names, and sentences about replicas; the others are counted."""
_WHY: Final = {
    Why.NOT_REGISTERED: "no broker with this id is registered; stratalog cluster decommission gives its partitions to others",
    Why.FENCED: "the broker is fenced",
    Why.DIRECTORY_OFFLINE: "the log directory is offline, and the broker's log names it",
    Why.NO_LEADER: "there is no leader to copy from",
    Why.BEHIND: "copying, and still behind the leader",
    Why.COMPLETE: "nothing is lacking, and the leader has yet to take it in",
    Why.UNKNOWN: "how far it is behind is not known",
    Why.NO_ANSWER: "the broker opens the copy, or has found damage, as its log says",
}


def node_faults(rows: Sequence[Mapping[str, Any]], quorum: Quorum) -> list[str]:
    """Fenced brokers, silent controllers, and a quorum without a leader."""
    faults = []
    if quorum.leader_id < 0:
        faults.append(
            "No controller is active: a majority of the voters must be up and reach each other. Brokers and leaders are "
            "shown as they were before, and some may be away by now."
        )
    for row in rows:
        node_id, silence_ms = row["node"], row["silence_ms"]
        fetched = "" if silence_ms is None else f"last fetched the metadata log {silence_ms // 1000} s ago"
        if row["state"] == "fenced":
            since = f" and {fetched}" if silence_ms is not None and silence_ms >= SILENT_FROM_MS else ""
            faults.append(
                f"Broker {node_id} is fenced{since}: it is away, starting, or cannot reach the active controller. "
                "Start it, and read its log."
            )
        elif row["state"] == "silent" and row["roles"]:  # others have no part: a broker that was unregistered, for one
            since = fetched or "has not fetched the metadata log since the active controller was elected"
            faults.append(
                f"Node {node_id} {since}: it is away, or cannot reach the active controller {quorum.leader_id}."
            )
    return faults


def leader_faults(leaderless: Sequence[str]) -> list[str]:
    """The sentence about partitions without a leader."""
    if not leaderless:
        return []
    count = "1 partition has" if len(leaderless) == 1 else f"{len(leaderless)} partitions have"
    return [f"{count} no leader, because no broker that has its records is active: {_named(leaderless)}."]


def disk_faults(found: Sequence[FullDisk]) -> list[str]:
    """A sentence for each log directory whose disk is full; of many the first ones."""
    sentences = [
        f"The disk of {one.directory} on broker {one.broker} is full, with {bytes_text(one.usable_bytes)} left: records that find no "
        "room there are refused. Make room, or lower retention; the broker goes on without a restart."
        for one in found[:NAMED_MAX]
    ]
    return sentences if len(found) <= NAMED_MAX else [*sentences, f"{len(found) - NAMED_MAX} more disks are full."]


def replica_faults(found: Sequence[OutOfSync]) -> list[str]:
    """A sentence for each broker and reason, with the partitions and how far each copy is behind."""
    groups: dict[tuple[int, Why, str], list[str]] = {}
    for one in found:
        behind = f" (lacks {one.records_behind} records)" if one.records_behind else ""
        groups.setdefault((one.copy.broker, one.why, one.said), []).append(f"{one.copy.partition}{behind}")
    sentences = []
    for (broker, why, said), names in sorted(groups.items()):
        reason = f"{_WHY[why]}{f' ({said})' if said else ''}"
        sentences.append(f"{_replicas(len(names), f'on broker {broker}')}: {reason}. Partitions: {_named(names)}.")
    if len(sentences) <= NAMED_MAX:
        return sentences
    rest = sum(map(len, list(dict(sorted(groups.items())).values())[NAMED_MAX:]))
    return [*sentences[:NAMED_MAX], f"{_replicas(rest, 'on other brokers')}; --json lists more of them."]


def _replicas(count: int, where: str) -> str:
    return f"1 replica {where} is not in sync" if count == 1 else f"{count} replicas {where} are not in sync"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f"{', '.join(names[:NAMED_MAX])}{more}"
