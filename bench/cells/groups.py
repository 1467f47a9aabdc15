"""Groups: how soon a hundred members that come together have divided a thousand partitions, and what heartbeats cost."""

from __future__ import annotations

import selectors
import sys
import time
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count
from pathlib import Path

from bench.cell import Cell, Line
from bench.cells.offset_commits import wait_for_coordinator
from bench.echo import echo_core_percent
from bench.group_members import ClassicMember, ConsumerMember, Member
from bench.outcome import Bound, Outcome, median
from bench.servers import KAFKA_FLUSH, BrokerServer
from bench.settings import Settings
from stratalog.client.link import BrokerLink

__all__ = ["CELLS"]

MEMBERS, PARTITIONS = 100, 1_000
GROUPS, MEMBERS_OF_EACH = 100, 10
_PAUSE_SECONDS = 0.02
"""How long a member that has nothing to do waits with its next heartbeat while others rebalance."""
_SETTLING_SECONDS = 0.2
_WARMING_SECONDS = 2.0
_MEASURED_SECONDS = 10.0
_HEARTBEAT_SECONDS = {"consumer": 5.0, "classic": 3.0}
"""The intervals that brokers and clients have by default."""
_PATIENCE_SECONDS = 60.0
_AT_ONCE = {"group.consumer.assignment.interval.ms": "0", "group.initial.rebalance.delay.ms": "0"}

_CONSUMER = Line("group-rebalance", "s, 100 members, 1,000 partitions, consumer protocol", Bound("<=", 0.5))
_CONSUMER_INTERVAL = Line(
    "group-rebalance-interval", "s, the same with Kafka's second between assignments", Bound("<=", 1.5)
)
_CLASSIC = Line("group-rebalance-classic", "s, the same by the classic protocol", Bound("<=", 0.5))
_BEATS = Line("group-heartbeats", "% of a core, 1,000 members in 100 groups, consumer protocol", Bound("<=", 2.0))
_CLASSIC_BEATS = Line("group-heartbeats-classic", "% of a core, the same by the classic protocol", Bound("<=", 2.0))


class _Crowd:
    """Members whose answers are waited for together; each sends again when ``pause`` says."""

    def __init__(self, members: Sequence[Member], pause_seconds: float) -> None:
        self.members = members
        self.pause_seconds = pause_seconds
        self._selector = selectors.DefaultSelector()
        self._due: list[tuple[float, int, Member]] = []
        self._numbers = count()
        for member in members:
            self._selector.register(member.link, selectors.EVENT_READ, member)

    def send_at(self, moment: float, member: Member) -> None:
        """A member sends its next request at this moment."""
        heappush(self._due, (moment, next(self._numbers), member))

    def turn(self) -> None:
        """Send what is due, wait for answers, and take them."""
        while self._due and self._due[0][0] <= time.monotonic():
            heappop(self._due)[2].send()
        wait = min(0.5, self._due[0][0] - time.monotonic()) if self._due else 0.5
        for key, _ in self._selector.select(max(wait, 0.0)):
            member: Member = key.data
            member.receive()
            self.send_at(time.monotonic() + (self.pause_seconds if member.is_stable else 0.0), member)

    def rest(self) -> None:
        """Take the answers that are under way, and send nothing more."""
        waiting = {member for _, _, member in self._due}
        for member in self.members:
            if member not in waiting:
                member.receive()
        self._due.clear()

    def close(self) -> None:
        """End all connections."""
        self._selector.close()
        for member in self.members:
            member.link.close()


def _has_settled(group: Sequence[Member], partitions_of_each: int) -> bool:
    """True if all members have an even share in the same epoch, and none of them changes."""
    return all(
        member.is_stable and member.owned_count == partitions_of_each and member.epoch == group[0].epoch
        for member in group
    )


def _made(protocol: str, port: int, group: str, topic: str, partitions: int, members: int) -> list[Member]:
    if protocol == "consumer":
        return [ConsumerMember(port, group, topic, partitions, f"m{number:03}") for number in range(members)]
    return [ClassicMember(port, group, topic, partitions) for _ in range(members)]


def _rebalance(port: int, protocol: str, group: str) -> float:
    """Seconds from the first join to the last member that has its share."""
    crowd = _Crowd(_made(protocol, port, group, "large", PARTITIONS, MEMBERS), _PAUSE_SECONDS)
    began = time.monotonic()
    for member in crowd.members:
        crowd.send_at(began, member)
    while not _has_settled(crowd.members, PARTITIONS // MEMBERS):
        if time.monotonic() > began + _PATIENCE_SECONDS:
            raise SystemExit(f"{protocol}: the group did not settle in a minute")
        crowd.turn()
    took = time.monotonic() - began
    crowd.close()
    return took


def _rebalance_line(line: Line, protocol: str, folder: Path, settings: Settings, extra: dict[str, str]) -> Outcome:
    with BrokerServer.start(folder / "data", {**KAFKA_FLUSH, **extra}) as broker:
        _prepare(broker)
        times, costs = [], []
        for repetition in range(settings.repetitions):
            before = broker.cpu_seconds()
            times.append(_rebalance(broker.port, protocol, f"{protocol}-{repetition}"))
            costs.append(broker.cpu_seconds() - before)
            print(f"  {times[-1]:.3f} s, {costs[-1]:.2f} s CPU", file=sys.stderr, flush=True)
    return line.outcome(median(times), broker_cpu_s=median(costs))


def _prepare(broker: BrokerServer) -> None:
    broker.create_topic("large", PARTITIONS)
    broker.create_topic("small", MEMBERS_OF_EACH)
    with BrokerLink("127.0.0.1", broker.port) as link:
        wait_for_coordinator(link)


def _heartbeats_line(line: Line, protocol: str, folder: Path) -> Outcome:
    interval = _HEARTBEAT_SECONDS[protocol]
    with BrokerServer.start(folder / "data", {**KAFKA_FLUSH, **_AT_ONCE}) as broker:
        _prepare(broker)
        groups = [
            _made(protocol, broker.port, f"g{number}", "small", MEMBERS_OF_EACH, MEMBERS_OF_EACH)
            for number in range(GROUPS)
        ]
        everybody = _Crowd([member for group in groups for member in group], _SETTLING_SECONDS)
        _settle(everybody, groups)
        idle = _core_percent(broker, lambda: time.sleep(0.2), _MEASURED_SECONDS / 3)
        everybody.pause_seconds = interval
        now = time.monotonic()
        for number, member in enumerate(everybody.members):
            everybody.send_at(now + interval * number / len(everybody.members), member)
        busy = _core_percent(broker, everybody.turn, _MEASURED_SECONDS)
        everybody.close()
    rate = GROUPS * MEMBERS_OF_EACH / interval
    echo = echo_core_percent(GROUPS * MEMBERS_OF_EACH, rate, _MEASURED_SECONDS / 2)
    print(f"  {busy:.2f} % of a core, {idle:.2f} % without heartbeats, echo {echo:.2f} %", file=sys.stderr, flush=True)
    outcome = line.outcome(busy - idle, idle_percent=idle, heartbeats_per_s=rate, echo_percent=echo)
    outcome.predicted = echo
    outcome.note = "predicted: asyncio alone, echoing as many requests of that size on as many connections"
    return outcome


def _settle(everybody: _Crowd, groups: Sequence[Sequence[Member]]) -> None:
    """Let all groups come to rest; then no member has a request under way."""
    now = time.monotonic()
    for member in everybody.members:
        everybody.send_at(now, member)
    while not all(_has_settled(group, 1) for group in groups):
        if time.monotonic() > now + _PATIENCE_SECONDS:
            raise SystemExit("the groups did not settle in a minute")
        for _ in range(50):
            everybody.turn()
    everybody.rest()
    now = time.monotonic()  # what a member has sent again and again is what is measured
    for member in everybody.members:
        everybody.send_at(now, member)
    while time.monotonic() < now + _WARMING_SECONDS:
        everybody.turn()
    everybody.rest()


def _core_percent(broker: BrokerServer, step: Callable[[], object], seconds: float) -> float:
    """The broker's CPU time, in percent of one core, while ``step`` is done again and again."""
    began, before = time.monotonic(), broker.cpu_seconds()
    while time.monotonic() < began + seconds:
        step()
    return 100 * (broker.cpu_seconds() - before) / (time.monotonic() - began)


def _measure_rebalances(settings: Settings) -> list[Outcome]:
    outcomes = []
    for line, protocol, extra in (
        (_CONSUMER, "consumer", _AT_ONCE),
        (_CONSUMER_INTERVAL, "consumer", {}),
        (_CLASSIC, "classic", _AT_ONCE),
    ):
        print(f"{line.cell}:", file=sys.stderr)
        with settings.folder(settings.memory) as folder:
            outcomes.append(_rebalance_line(line, protocol, folder, settings, extra))
    return outcomes


def _measure_heartbeats(settings: Settings) -> list[Outcome]:
    outcomes = []
    for line, protocol in ((_BEATS, "consumer"), (_CLASSIC_BEATS, "classic")):
        print(f"{line.cell}:", file=sys.stderr)
        with settings.folder(settings.memory) as folder:
            outcomes.append(_heartbeats_line(line, protocol, folder))
    return outcomes


CELLS = (
    Cell("group-rebalance", (_CONSUMER, _CONSUMER_INTERVAL, _CLASSIC), _measure_rebalances),
    Cell("group-heartbeats", (_BEATS, _CLASSIC_BEATS), _measure_heartbeats),
)
