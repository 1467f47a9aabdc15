"""Figures of the group coordinator for ``/metrics``."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Final

from stratalog.broker.coordinators.groups import GroupCoordinator
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.fresh_figures import FreshFigures
from stratalog.broker.runtime.metrics import Metrics
from stratalog.metadata.groups.classic.state import ClassicState
from stratalog.metadata.groups.group import GroupType
from stratalog.metadata.groups.shard.figures import GroupFigures
from stratalog.metadata.groups.shard.shard import GroupShard

__all__ = ["add_group_figures"]

_MANAGER: Final = "kafka_coordinator_group_groupmetadatamanager_"
_COUNTERS: Final = {
    "rebalances_completed": "Classic groups that have become stable.",
    "sessions_expired": "Members of classic groups that were removed because they were silent.",
    "records_skipped": "Records of __consumer_offsets of a type that is not known.",
}


class _Count:
    """The figures of all shards."""

    def __init__(self, metrics: Metrics, groups: GroupCoordinator, clock: Clock) -> None:
        self._groups = groups
        self.figures = FreshFigures(metrics, self._counted, clock).get

    def _counted(self) -> Generator[None, None, GroupFigures]:
        figures = GroupFigures()
        for driver in self._groups.drivers():
            assert isinstance(driver.shard, GroupShard)
            figures.add(driver.shard.figures())
            yield
        return figures

    def in_state(self, state: str | None) -> list[tuple[dict[str, str], float]]:
        """Classic groups in one state, or in any."""
        classic = {
            name: count for (kind, name), count in self.figures().states.items() if kind == GroupType.CLASSIC.value
        }
        return [({}, sum(classic.values()) if state is None else classic.get(state, 0))]

    def by_type(self) -> list[tuple[dict[str, str], float]]:
        """Groups of each type."""
        states = self.figures().states
        return [
            ({"protocol": kind.value}, sum(count for (name, _), count in states.items() if name == kind.value))
            for kind in GroupType
        ]

    def consumer_states(self) -> list[tuple[dict[str, str], float]]:
        """Consumer groups by state."""
        states = self.figures().states
        return [
            ({"state": state}, count) for (kind, state), count in states.items() if kind == GroupType.CONSUMER.value
        ]

    def members(self) -> list[tuple[dict[str, str], float]]:
        """Members of all groups."""
        return [({}, self.figures().members)]

    def counter(self, name: str) -> list[tuple[dict[str, str], float]]:
        """One of the numbers that only grow."""
        return [({}, getattr(self.figures(), name))]


def add_group_figures(metrics: Metrics, groups: GroupCoordinator, clock: Clock) -> None:
    """Show groups by type and state, under Kafka's names, and what happens to them."""
    count = _Count(metrics, groups, clock)
    text = "kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups"
    metrics.add_gauge(f"{_MANAGER}numgroups", f"{text}: classic groups.", partial(count.in_state, None))
    for state in ClassicState:
        metrics.add_gauge(
            f"{_MANAGER}numgroups{state.value.lower()}", f"{text}{state.value}.", partial(count.in_state, state.value)
        )
    kafka = "kafka_server_group_coordinator_metrics_"
    metrics.add_gauge(f"{kafka}group_count", "Groups of each protocol.", count.by_type)
    metrics.add_gauge(f"{kafka}consumer_group_count", "Consumer groups in each state.", count.consumer_states)
    metrics.add_gauge(
        "stratalog_group_members",
        "Members of all groups, and member ids that were given out and not used.",
        count.members,
    )
    metrics.add_counter(
        "stratalog_groups_refused",
        "Groups and members that were refused because there were too many, by the setting that says so.",
        lambda: [({"setting": ceiling.name}, ceiling.refused) for ceiling in groups.ceilings],
    )
    for name, meaning in _COUNTERS.items():
        metrics.add_counter(f"stratalog_groups_{name}", meaning, partial(count.counter, name))
