"""Carries out a plan of moves: some at once, the next when these have ended, and preferred leaders at the end.

No state is kept between runs: the cluster knows the moves that run and the replicas that are where they should be. After an
interrupted run the next one plans anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from stratalog.cli.cluster.plan import Plan, partitions_of
from stratalog.cli.cluster.run_throttle import RunThrottle
from stratalog.cli.output import bytes_text
from stratalog.client.client import BrokerAway, Client, Partition
from stratalog.client.partition_states import min_in_sync_replicas
from stratalog.client.reassignments import Reassignment, elect_preferred_leaders, list_reassignments, reassign
from stratalog.metadata.balancing.moves import Move, is_safe, may_begin
from stratalog.wire.errors import KafkaError
from stratalog.wire.topic import TopicPartition

__all__ = ["Outcome", "Run"]

LOOK_SECONDS: Final = 0.5
SAID_SECONDS: Final = 10.0
STUCK_SECONDS: Final = 30.0
"""So long no move comes further and none may begin, before the run gives up."""
AWAY_SECONDS: Final = 60.0
"""So long the run asks again while a broker gives no answer: another one may lead, or the controller be elected anew."""
ELSEWHERE_SECONDS: Final = 3.0
"""So long a move that had begun is seen on the way to other brokers before it is left to the command that moves it there. A broker
that is behind the controller tells for a moment what was before."""
ELECTION_SECONDS: Final = 10.0
"""New replicas join the in-sync set in a moment; so long elections of leaders are tried again."""


class Outcome(Struct):
    """The end of a run: the partitions that were moved, that were refused with the reason, and that wait.

    They wait for replicas in sync, or for a leader, from which their new replicas copy.
    """

    moved: list[TopicPartition] = field(default_factory=list)
    refused: dict[TopicPartition, str] = field(default_factory=dict)
    waiting: list[TopicPartition] = field(default_factory=list)
    leaderless: list[TopicPartition] = field(default_factory=list)
    leaders_changed: int = 0


class Run:
    """One run of a plan. ``say`` gets sentences of progress."""

    def __init__(
        self,
        client: Client,
        plan: Plan,
        *,
        at_once: int,
        throttle: int | None,
        say: Callable[[str], None],
        sleep: Callable[[float], None],
    ) -> None:
        self._client = client
        self._plan = plan
        self._at_once = at_once
        self._throttle = RunThrottle(client, throttle, say)
        self._say = say
        self._sleep = sleep
        self._clock = client.monotonic
        self._left = {move.partition: move for move in plan.moves}
        self._earlier = set(plan.running).difference(self._left)
        """Partitions on the way to where they should be since an earlier run."""
        self._begun: set[TopicPartition] = set()
        """Those that this run has sent on their way."""
        self._elsewhere: dict[TopicPartition, tuple[float, tuple[int, ...]]] = {}
        """Those of them that are on the way to other brokers now: since when, and to which."""
        self._leaderless: set[TopicPartition] = set()
        """Those of both that have no leader now: none copies from them."""
        self.outcome = Outcome()

    def run(self, *, elect_all: bool) -> Outcome:
        """Make all moves and wait for their end, then elect leaders: of all partitions, or of those that were moved.

        Raises `KafkaError`, and `BrokerAway` after `AWAY_SECONDS`; moves that have begun go on then, as after Ctrl-C.
        """
        self._throttle.set(self._plan.moves, self._plan.running)
        least = min_in_sync_replicas(self._client, {move.partition.topic for move in self._plan.moves})
        self._move(least)
        self._insist(lambda: self._elect(elect_all=elect_all))
        self._insist(self._throttle.clear)
        return self.outcome

    def _insist(self, attempt: Callable[[], None]) -> None:
        """Carry out what may be done twice. While no broker or no controller answers it is done again, as long as moves are."""
        deadline = self._clock() + AWAY_SECONDS
        while True:
            try:
                attempt()
            except (BrokerAway, KafkaError) as error:
                if self._clock() >= deadline or (isinstance(error, KafkaError) and not error.retriable):
                    raise
            else:
                return
            self._sleep(LOOK_SECONDS)

    @property
    def progress(self) -> str:
        """How far it has come."""
        left = sum(move.copy_bytes * len(move.adding) for move in self._left.values())
        count = len(self._leaderless)
        return (
            f"{len(self.outcome.moved)} of {len(self._plan.moves)} partitions are where they should be; "
            f"{bytes_text(left)} of the others to copy" + (f"; {count} of them without a leader wait" if count else "")
        )

    def _move(self, least: Mapping[str, int]) -> None:
        said_at = acted_at = answered_at = self._clock()
        while True:
            away: BrokerAway | KafkaError | None = None
            is_at_work = False
            try:
                is_at_work = self._take_turn(least)
            except (BrokerAway, KafkaError) as error:
                if isinstance(error, KafkaError) and not error.retriable:
                    raise
                away = error
            now = self._clock()
            if away is not None:
                if now - answered_at >= AWAY_SECONDS:
                    raise away
                acted_at = now
            elif not self._left and not self._earlier:
                return
            else:
                answered_at, acted_at = now, now if is_at_work else acted_at
                if now - acted_at >= STUCK_SECONDS:
                    self.outcome.waiting = sorted(self._left.keys() - self._leaderless)
                    self.outcome.leaderless = sorted(self._leaderless)
                    return
            if now - said_at >= SAID_SECONDS:
                said_at = now
                self._say(self.progress if away is None else f"{self.progress}; asked again: {away}")
            self._sleep(LOOK_SECONDS)

    def _take_turn(self, least: Mapping[str, int]) -> bool:
        """Note what has ended and begin what may begin; whether anything moves. Raises `BrokerAway`, `KafkaError`.

        A partition without a leader does not: its new replicas have no records to copy.
        """
        parts = partitions_of(self._client.refresh())
        running = list_reassignments(self._client)
        self._earlier &= running.keys() & parts.keys()
        before = len(self._left)
        self._note_ends(parts, running)
        self._leave_to_others(parts, running)
        self._leaderless = {one for one in self._left.keys() | self._earlier if parts[one].leader < 0}
        able = [move for one, move in self._left.items() if one not in self._leaderless and one not in self._elsewhere]
        under_way = [move for move in able if _is_under_way(move, running)]
        waiting = [move for move in able if not _is_under_way(move, running)]
        begun = self._begin(waiting, under_way, parts, least)
        return bool(
            begun or under_way or self._elsewhere or self._earlier - self._leaderless or len(self._left) < before
        )

    def _note_ends(self, parts: Mapping[TopicPartition, Partition], running: Mapping[TopicPartition, object]) -> None:
        """Take moves off the list that have ended; a topic that was deleted meanwhile needs none."""
        for one, move in list(self._left.items()):
            part = parts.get(one)
            if part is None:
                self.outcome.refused[one] = "the topic was deleted"
                del self._left[one]
            elif one not in running and part.replicas == move.target:
                self.outcome.moved.append(one)
                del self._left[one]

    def _leave_to_others(
        self, parts: Mapping[TopicPartition, Partition], running: Mapping[TopicPartition, Reassignment]
    ) -> None:
        """Take moves off the list that another command has turned elsewhere: each would take them back from the other, for ever."""
        now = self._clock()
        self._elsewhere = {one: seen for one, seen in self._elsewhere.items() if one in self._left}
        for one, move in list(self._left.items()):
            found = running.get(one)
            if found is not None and found.target != move.target and one in self._begun:
                since, _ = self._elsewhere.get(one, (now, ()))
                self._elsewhere[one] = since, found.target
                if now - since >= ELSEWHERE_SECONDS:
                    self._leave(one)
            elif one in self._elsewhere and parts[one].replicas == self._elsewhere[one][1]:
                self._leave(one)
            else:
                self._elsewhere.pop(one, None)

    def _leave(self, one: TopicPartition) -> None:
        _, target = self._elsewhere.pop(one)
        self.outcome.refused[one] = f"another command has it move to the brokers {','.join(map(str, target))}"
        del self._left[one]

    def _begin(
        self,
        waiting: Sequence[Move],
        under_way: Sequence[Move],
        parts: Mapping[TopicPartition, Partition],
        least: Mapping[str, int],
    ) -> bool:
        safe = [
            move for move in waiting if is_safe(move, parts[move.partition].in_sync, least.get(move.partition.topic, 1))
        ]
        begin = may_begin(safe, under_way, self._at_once)
        if not begin:
            return False
        refused = reassign(self._client, {move.partition: move.target for move in begin})
        self._begun |= {move.partition for move in begin}
        for one, why in refused.items():
            self.outcome.refused[one] = why
            del self._left[one]
        return True

    def _elect(self, *, elect_all: bool) -> None:
        mine = set(self.outcome.moved)
        deadline = self._clock() + ELECTION_SECONDS
        while True:
            wanted = [
                one
                for one, part in partitions_of(self._client.refresh()).items()
                if (elect_all or one in mine) and part.leader not in {part.replicas[0], -1}
            ]
            ready = wanted and elect_preferred_leaders(self._client, wanted)
            self.outcome.leaders_changed += ready or 0
            if not wanted or self._clock() >= deadline:
                return
            self._sleep(LOOK_SECONDS)


def _is_under_way(move: Move, running: Mapping[TopicPartition, Reassignment]) -> bool:
    found: Any = running.get(move.partition)
    return found is not None and found.target == move.target
