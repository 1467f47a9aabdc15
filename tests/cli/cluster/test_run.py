"""A run of a plan against a cluster of answers: how many moves at once, what waits, what is refused, and when it gives up."""

from __future__ import annotations

import pytest

from stratalog.cli.cluster.plan import Plan
from stratalog.cli.cluster.run import AWAY_SECONDS, LOOK_SECONDS, SAID_SECONDS, STUCK_SECONDS, Run
from stratalog.client.client import BrokerUnavailable, Client
from stratalog.client.reassignments import Reassignment
from stratalog.metadata.balancing.moves import Move
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from stratalog.wire.messages.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from stratalog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from stratalog.wire.topic import TopicPartition
from tests.client import told_topics as told


def _configs(request):
    asked = request.resources[0].configuration_keys
    return told.configs({"t": {"min.insync.replicas": "2"} if "min.insync.replicas" in asked else {}})


class World:
    """The topic t: partition -> (leader, replicas, in sync). A move ends when it has been looked at ``looks`` times."""

    def __init__(self, scripted, parts, looks=1):
        self.parts, self.looks, self.moves, self.refused = dict(parts), looks, {}, {}
        self.most, self.seconds, self.said, self.gone = 0, 0.0, [], False
        self.others = {}  # partition -> where another operator moves it, whenever it is moved elsewhere
        self.headless = 0  # so many elections find no controller
        self.silent = 0  # so many lists of moves are asked for in vain
        scripted.ranges = {3: (0, 13), 18: (0, 4), 32: (1, 4), 43: (0, 2), 45: (0, 1), 46: (0, 0)}
        scripted.answers |= {
            3: lambda _: told.metadata(scripted.port, (1, 2, 3, 4), self._rows()),
            32: _configs,
            43: self._elect,
            45: self._alter,
            46: lambda _: self._list(),
        }
        self.address = scripted.address

    def _rows(self):
        if self.gone:
            return {}
        return {"t": [(*self.parts[number], ()) for number in sorted(self.parts)]}

    def _alter(self, request):
        rows = []
        for one in request.topics[0].partitions:
            why = self.refused.get(one.partition_index)
            rows.append(
                ReassignablePartitionResponse(
                    partition_index=one.partition_index,
                    error_code=ErrorCode.INVALID_REPLICA_ASSIGNMENT if why else 0,
                    error_message=why,
                )
            )
            if not why:
                self.moves[one.partition_index] = [tuple(one.replicas), self.looks]
        self.most = max(self.most, len(self.moves))
        return AlterPartitionReassignmentsResponse(responses=[ReassignableTopicResponse(name="t", partitions=rows)])

    def _list(self):
        if self.silent:
            self.silent -= 1
            return None
        for number, target in self.others.items():
            if number in self.moves and self.moves[number][0] != target:
                self.moves[number] = [target, self.looks]
        for number, move in list(self.moves.items()):
            move[1] -= 1
            if move[1] < 0:
                del self.moves[number]
                leader = self.parts[number][0]
                target = move[0]
                self.parts[number] = (leader if leader in target else target[0], target, target)
        rows = [
            OngoingPartitionReassignment(
                partition_index=number,
                replicas=[*target, *set(self.parts[number][1]).difference(target)],
                adding_replicas=sorted(set(target).difference(self.parts[number][1])),
                removing_replicas=sorted(set(self.parts[number][1]).difference(target)),
            )
            for number, (target, _) in self.moves.items()
        ]
        return ListPartitionReassignmentsResponse(topics=[OngoingTopicReassignment(name="t", partitions=rows)])

    def _elect(self, request):
        if self.headless:
            self.headless -= 1
            return ElectLeadersResponse(error_code=ErrorCode.NOT_CONTROLLER, replica_election_results=[])
        rows = []
        for number in request.topic_partitions[0].partitions:
            _, replicas, in_sync = self.parts[number]
            self.parts[number] = (replicas[0], replicas, in_sync)
            rows.append(PartitionResult(partition_id=number))
        return ElectLeadersResponse(replica_election_results=[ReplicaElectionResult(topic="t", partition_result=rows)])

    def sleep(self, seconds):
        """Virtual time."""
        self.seconds += seconds

    def run(self, targets, *, at_once=1, elect_all=False, running=None):
        """Carry out moves to ``targets``; the outcome."""
        moves = [
            Move(TopicPartition("t", number), self.parts[number][1], target, self.parts[number][0], 1 << 20)
            for number, target in targets.items()
        ]
        plan = Plan(tuple(moves), (), frozenset(), {}, {}, frozenset(), running or {})
        with Client(self.address, 5, monotonic=lambda: self.seconds) as client:
            run = Run(client, plan, at_once=at_once, throttle=None, say=self.said.append, sleep=self.sleep)
            return run.run(elect_all=elect_all)


@pytest.mark.parametrize("at_once", [1, 3])
def test_no_more_copies_go_to_a_broker_than_wanted(scripted, at_once):
    """The next begins when one has ended; leaders of what was moved become the preferred ones."""
    world = World(scripted, dict.fromkeys(range(7), (1, (1, 2), (1, 2))))
    outcome = world.run(dict.fromkeys(range(7), (2, 3)), at_once=at_once)
    assert world.most == at_once
    assert sorted(one.partition for one in outcome.moved) == list(range(7))
    assert {replicas for _, replicas, _ in world.parts.values()} == {(2, 3)}
    assert {leader for leader, _, _ in world.parts.values()} == {2}


def test_leaders_of_all_partitions_are_elected_on_demand(scripted):
    """Also of those that did not move; one that leads already is left alone."""
    world = World(scripted, {0: (2, (1, 2), (1, 2)), 1: (1, (1, 2), (1, 2)), 2: (-1, (3, 4), ())})
    assert world.run({}, elect_all=True).leaders_changed == 1
    assert world.parts[0][0] == 1
    assert world.run({}).leaders_changed == 0


def test_a_move_that_would_endanger_acknowledged_records_waits_and_is_named(scripted):
    """One member is in sync, min.insync.replicas is 2, and one replica would be added: others move meanwhile."""
    world = World(scripted, {0: (1, (1, 2, 3), (1,)), 1: (1, (1, 2, 3), (1, 2, 3))})
    outcome = world.run({0: (2, 3, 4), 1: (1, 2, 4)})
    assert (outcome.moved, outcome.waiting) == ([TopicPartition("t", 1)], [TopicPartition("t", 0)])
    assert world.parts[0][1] == (1, 2, 3)
    assert world.seconds >= STUCK_SECONDS


def test_a_move_without_a_leader_waits_and_is_named(scripted):
    """It has no records to copy: one that is under way does not keep the run, nor the place of another one."""
    world = World(scripted, {0: (-1, (1, 2), (1,)), 1: (-1, (1, 3), (1,)), 2: (2, (1, 2), (1, 2))})
    world.moves[1] = [(3, 4), 10_000]
    world.moves[2] = [(2, 4), 3]
    earlier = {TopicPartition("t", 1): Reassignment((3, 4, 1), (4,), (1,))}
    outcome = world.run({0: (2, 4), 2: (2, 4)}, running=earlier)
    assert (outcome.moved, outcome.waiting) == ([TopicPartition("t", 2)], [])
    assert outcome.leaderless == [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert 0 not in world.moves
    assert STUCK_SECONDS <= world.seconds < 2 * STUCK_SECONDS
    assert world.said[0].endswith("; 2 of them without a leader wait")


def test_refused_moves_and_deleted_topics_are_named(scripted):
    """The others go on."""
    world = World(scripted, dict.fromkeys(range(3), (1, (1, 2), (1, 2))))
    world.refused = {1: "no broker 9"}
    outcome = world.run({0: (1, 3), 1: (1, 9), 2: (1, 3)})
    assert outcome.refused == {TopicPartition("t", 1): "no broker 9"}
    assert sorted(one.partition for one in outcome.moved) == [0, 2]
    world.gone = True
    assert world.run({0: (1, 4)}).refused == {TopicPartition("t", 0): "the topic was deleted"}


@pytest.mark.parametrize("looks", [2, 20])
def test_a_move_that_another_command_turns_elsewhere_is_left_to_it(scripted, looks):
    """Two that take a partition from each other move it to and fro, and neither ends: also where the other one is quick."""
    world = World(scripted, {0: (1, (1, 2), (1, 2)), 1: (1, (1, 2), (1, 2))}, looks=looks)
    world.others = {0: (1, 4)}
    outcome = world.run({0: (1, 3), 1: (1, 3)}, at_once=2)
    assert list(outcome.moved) == [TopicPartition("t", 1)]
    assert "1,4" in outcome.refused[TopicPartition("t", 0)]
    assert world.seconds < STUCK_SECONDS


def test_a_run_waits_for_the_moves_of_an_earlier_one_and_says_how_far_it_is(scripted):
    """They are in no plan any more, and have to end before the throttle goes."""
    world = World(scripted, {0: (1, (1, 2), (1, 2))}, looks=3 * int(SAID_SECONDS))
    world.moves[0] = [(1, 3), world.looks]
    world.run({}, running={TopicPartition("t", 0): Reassignment((1, 3, 2), (3,), (2,))})
    assert world.parts[0][1] == (1, 3)
    assert world.said[0] == "0 of 0 partitions are where they should be; 0 B of the others to copy"


def test_a_broker_that_dies_under_a_run_is_asked_again(scripted):
    """Another one may answer by then. The moves that have begun went on meanwhile."""
    world = World(scripted, dict.fromkeys(range(3), (1, (1, 2), (1, 2))))
    world.silent = int(SAID_SECONDS / LOOK_SECONDS) + 1
    assert len(world.run(dict.fromkeys(range(3), (2, 3))).moved) == 3
    assert "0 of 3 partitions are where they should be" in world.said[0]
    assert "asked again: broker 127.0.0.1" in world.said[0]


def test_a_run_ends_when_no_broker_answers_for_long(scripted):
    """With the error of the last one that was asked."""
    world = World(scripted, {0: (1, (1, 2), (1, 2))})
    world.silent = 1_000_000
    with pytest.raises(BrokerUnavailable):
        world.run({0: (2, 3)})
    assert AWAY_SECONDS <= world.seconds < AWAY_SECONDS + SAID_SECONDS


@pytest.mark.parametrize("headless", [3, 1_000_000])
def test_a_controller_that_is_away_at_the_end_of_a_run_is_waited_for(scripted, headless):
    """All has been moved, and the throttle is to go: for as long as in the midst of the moves."""
    world = World(scripted, {0: (1, (1, 2), (1, 2))})
    world.headless = headless
    if headless < AWAY_SECONDS:
        assert world.run({0: (3, 1)}).leaders_changed == 1
    else:
        with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
            world.run({0: (3, 1)})
        assert AWAY_SECONDS <= world.seconds < 2 * AWAY_SECONDS
