"""The largest legal request of every API: as many elements as one request may have, in the form that makes most rows.

A request has at most ``stratalog.request.elements.max`` elements, 10,000 by default, in all its lists together. Requests
that would change the cluster only ask whether they could, or name what is not there.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.worst.of_cluster import add_cluster
from bench.worst.of_groups import add_groups
from bench.worst.of_topics import add_topics
from bench.worst.worst import ELEMENTS, GROUP, MANY, Worst
from stratalog.wire.schema import Message

__all__ = ["ELEMENTS", "GROUP", "MANY", "Worst", "worst_requests"]


def worst_requests(topics: Sequence[str]) -> list[Worst]:
    """Those of every API; the topics of the cluster have one partition each."""
    groups = [MANY.format(number) for number in range(ELEMENTS)]
    half = topics[: ELEMENTS // 2 - 1]
    requests: list[Worst] = []

    def add(what: str, message: Message, *versions: int, pipelined: int = 1) -> None:
        newest = (type(message).versions[1],)
        requests.extend(Worst(what, message, version, pipelined) for version in versions or newest)

    add_topics(add, topics, groups, half)
    add_groups(add, groups, half)
    add_cluster(add, groups, half)
    return requests
