"""A coordinator that starts with a million committed offsets in its log: how long until every group is answered."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from bench.cell import Cell, Line
from bench.cells.offset_commits import wait_for_coordinator
from bench.outcome import Bound, Outcome, median
from bench.servers import KAFKA_FLUSH, BrokerServer
from bench.settings import Settings
from stratalog.client.link import BrokerLink
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.api_versions import ApiVersionsRequest
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stratalog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from stratalog.wire.partitioner import coordinator_partition

__all__ = ["CELL", "one_group_of_each_partition"]

TOPIC = "many"
PARTITION_COUNT = 1000
GROUP_COUNT = 1000
COORDINATOR_PARTITIONS = 50
_NOT_YET = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)

_LINE = Line("offsets-load-1m", "s from start until every group is answered, 1,000,000 offsets", Bound("<=", 10))


@dataclass(frozen=True, slots=True)
class _Load:
    """One start: seconds until it was ready and until all was loaded, the longest that another request took,
    whether a group was answered that it is being loaded, and megabytes at the end.
    """

    ready_seconds: float
    seconds: float
    longest_ms: float
    was_loading: bool
    megabytes: float


def one_group_of_each_partition() -> list[str]:
    """Groups that together are coordinated by every partition."""
    found: dict[int, str] = {}
    for number in range(GROUP_COUNT):
        found.setdefault(coordinator_partition(f"g{number}", COORDINATOR_PARTITIONS), f"g{number}")
    return list(found.values())


def _fill(broker: BrokerServer) -> None:
    """Commit every partition of a wide topic for every group. Raises ``SystemExit`` for what is refused."""
    broker.create_topic(TOPIC, PARTITION_COUNT)
    partitions = [
        OffsetCommitRequestPartition(partition_index=number, committed_offset=123_456, committed_metadata="")
        for number in range(PARTITION_COUNT)
    ]
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)]
    with BrokerLink("127.0.0.1", broker.port) as link:
        wait_for_coordinator(link)
        for number in range(GROUP_COUNT):
            answer = link.call(OffsetCommitRequest(group_id=f"g{number}", member_id="", topics=topics), 9)
            codes = {one.error_code for topic in answer.topics for one in topic.partitions}
            if codes != {0}:
                raise SystemExit(f"commits of g{number} failed with {codes}")


def _start(broker: BrokerServer) -> _Load:
    """Ask every partition's coordinator until all answer, and meanwhile something else. Raises ``SystemExit``."""
    began = time.monotonic()
    wanted = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0, PARTITION_COUNT - 1])]
    groups = [OffsetFetchRequestGroup(group_id=group, topics=wanted) for group in one_group_of_each_partition()]
    longest, was_loading = 0.0, False
    with BrokerLink("127.0.0.1", broker.port) as link, BrokerLink("127.0.0.1", broker.port) as other:
        while True:
            codes = set()
            for answer in link.call(OffsetFetchRequest(groups=groups), 9).groups:
                codes.add(answer.error_code)
                offsets = {one.committed_offset for topic in answer.topics for one in topic.partitions}
                if not answer.error_code and offsets != {123_456}:
                    raise SystemExit(f"{answer.group_id} answered {offsets}")
            if codes == {0}:
                break
            if codes - {0, *_NOT_YET}:
                raise SystemExit(f"groups answered with {codes}")
            was_loading |= ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in codes
            asked = time.monotonic()
            other.call(ApiVersionsRequest(client_software_name="bench", client_software_version="1"), 3)
            longest = max(longest, time.monotonic() - asked)
            time.sleep(0.02)
        seconds = broker.ready_seconds + time.monotonic() - began
    return _Load(broker.ready_seconds, seconds, longest * 1e3, was_loading, broker.pss_megabytes())


def _measure(settings: Settings) -> list[Outcome]:
    runs = []
    with settings.folder(settings.disk) as folder:
        with BrokerServer.start(folder / "data", KAFKA_FLUSH) as broker:
            _fill(broker)
        for _ in range(settings.repetitions):
            with BrokerServer.start(folder / "data", KAFKA_FLUSH) as broker:
                runs.append(_start(broker))
            print(f"  {runs[-1]}", file=sys.stderr, flush=True)
    outcome = _LINE.outcome(
        median(run.seconds for run in runs),
        ready_seconds=median(run.ready_seconds for run in runs),
        longest_other_answer_ms=max(run.longest_ms for run in runs),
        memory_mb=median(run.megabytes for run in runs),
    )
    loading = sum(run.was_loading for run in runs)
    outcome.note = (
        f"{loading} of {len(runs)} starts said that they were loading; other requests were answered meanwhile"
    )
    return [outcome]


CELL = Cell(_LINE.cell, (_LINE,), _measure)
