"""The throttle of a run: the partitions that it names, and what of it and of others' throttles is there at the end."""

import pytest

from stratalog.cli.cluster.plan import Plan
from stratalog.cli.cluster.run import Run
from stratalog.client.client import Client
from stratalog.client.reassignments import Reassignment
from stratalog.client.throttles import FOLLOWERS, LEADERS, RATES
from stratalog.metadata.balancing.moves import Move
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.alter_configs import AlterConfigsResourceResponse
from stratalog.wire.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from stratalog.wire.messages.list_partition_reassignments import (
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from stratalog.wire.topic import TopicPartition
from tests.cli.cluster.test_run import World
from tests.client import told_topics as told

RATE = 1 << 20
TOPIC, BROKER = 2, 4


class ThrottledWorld(World):
    """The topic t, whose moves a run makes, and the topic others, whose partition 0 someone moves from broker 1 to 3 all the time."""

    def __init__(self, scripted, parts, looks=1):
        super().__init__(scripted, parts, looks)
        self.settings, self.seen, self.others_move = {}, {}, False
        scripted.ranges[44] = (0, 1)
        scripted.answers |= {32: self._describe, 44: self._configure}

    def _rows(self):
        return super()._rows() | {"others": [(1, (1,), (1,), ())]}

    def _list(self):
        answer = super()._list()
        if self.others_move:
            row = OngoingPartitionReassignment(
                partition_index=0, replicas=[1, 3], adding_replicas=[3], removing_replicas=[]
            )
            answer.topics.append(OngoingTopicReassignment(name="others", partitions=[row]))
        return answer

    def _describe(self, request):
        asked = {one.resource_name: one.configuration_keys for one in request.resources}
        settings = {name: {"min.insync.replicas": "1"} | self._lists(name) for name in asked}
        return told.configs({n: {k: v for k, v in settings[n].items() if k in asked[n]} for n in asked})

    def _lists(self, topic):
        return {key: value for (kind, name, key), value in self.settings.items() if (kind, name) == (TOPIC, topic)}

    def _configure(self, request):
        for one in request.resources:
            for config in one.configs:
                key = one.resource_type, one.resource_name, config.name
                if config.value is None:
                    self.settings.pop(key, None)
                else:
                    self.settings[key] = self.seen[key] = config.value
        return IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    error_code=0, error_message=None, resource_type=one.resource_type, resource_name=one.resource_name
                )
                for one in request.resources
            ]
        )

    def throttled(self, targets, *, running=None, rate=RATE):
        """Move partitions of t to ``targets``; what the throttle was."""
        moves = [
            Move(TopicPartition("t", number), self.parts[number][1], target, self.parts[number][0], 1 << 20)
            for number, target in targets.items()
        ]
        plan = Plan(tuple(moves), (), frozenset(), {}, {}, frozenset(), running or {})
        with Client(self.address, 5, monotonic=lambda: self.seconds) as client:
            client.refresh()  # as the plan does
            run = Run(client, plan, at_once=1, throttle=rate, say=self.said.append, sleep=self.sleep)
            run.run(elect_all=False)
        return self.seen


@pytest.fixture
def world(scripted):
    """Two partitions on brokers 1 and 2."""
    return ThrottledWorld(scripted, {0: (1, (1, 2), (1, 2)), 1: (1, (1, 2), (1, 2))}, looks=4)


def throttle_of(topic, leaders, followers):
    """The settings of a topic's throttle."""
    return {(TOPIC, topic, LEADERS): leaders, (TOPIC, topic, FOLLOWERS): followers}


def rates(*brokers):
    """The settings of brokers' rates."""
    return {(BROKER, str(one), key): str(RATE) for one in brokers for key in RATES}


def test_a_throttle_is_set_for_the_moves_and_taken_away_at_their_end(world):
    """Rates of all brokers that send or receive, and the partitions of the plan."""
    assert world.throttled({0: (1, 3)}) == throttle_of("t", "0:1,0:2", "0:3") | rates(1, 2, 3)
    assert world.settings == {}
    assert world.said == []


def test_a_run_that_goes_on_keeps_the_throttle_of_what_an_earlier_one_moves(world):
    """The list of a topic is set as a whole: a partition on its way that it does not name would copy at full speed."""
    world.moves[0] = [(1, 3), world.looks]
    running = {TopicPartition("t", 0): Reassignment((1, 3, 2), (3,), (2,))}
    told_settings = world.throttled({1: (1, 4)}, running=running)
    assert told_settings == throttle_of("t", "1:1,1:2,0:1,0:2", "1:4,0:3") | rates(1, 2, 3, 4)
    assert world.settings == {}


def test_a_run_with_no_move_of_its_own_left_throttles_those_of_an_earlier_one(world):
    """And takes their throttle away, which the earlier run has left."""
    world.moves[0] = [(1, 3), world.looks]
    world.settings |= throttle_of("t", "0:1,0:2,1:1", "0:3,1:3")
    running = {TopicPartition("t", 0): Reassignment((1, 3, 2), (3,), (2,))}
    assert world.throttled({}, running=running) == throttle_of("t", "0:1,0:2", "0:3") | rates(1, 2, 3)
    assert world.settings == {}


def test_moves_of_others_without_a_throttle_keep_none_of_this_run(world):
    """A rate without replicas holds for none of them."""
    world.others_move = True
    world.throttled({0: (1, 3)})
    assert world.settings == {}
    assert world.said == []


def test_the_rates_that_throttled_moves_of_others_need_stay_and_are_named(world):
    """They share the rates of their brokers with this run. The command says how to take them away."""
    world.others_move = True
    theirs = throttle_of("others", "0:1", "0:3")
    world.settings |= theirs
    world.throttled({0: (1, 3)})
    assert world.settings == theirs | rates(1, 3)
    lists, stays = world.said
    assert lists.startswith("Throttled replicas stay with others: this run has not set them.")
    assert f"stratalog topic alter TOPIC --delete-config {LEADERS} --delete-config {FOLLOWERS}" in lists
    assert stays.startswith("The rate of the throttle stays at 1, 3: others move replicas there.")
    assert f"--entity-type brokers --entity-name BROKER --delete-config {','.join(RATES)}" in stays


def test_a_list_of_this_run_that_a_move_of_others_needs_stays_and_is_named(world, scripted):
    """A partition that it has moved is moved on by another hand before the run ends."""

    def elect(request):
        world.moves[0] = [(3, 4), 1000]
        return world._elect(request)

    scripted.answers[43] = elect
    world.throttled({0: (3, 1)})
    assert world.settings == throttle_of("t", "0:1,0:2", "0:3") | rates(1, 3)
    assert world.said[0].startswith("Throttled replicas stay with t: others move their partitions.")


def test_a_topic_that_is_deleted_under_the_run_keeps_no_throttle_of_others(world, scripted):
    """The run finds out by the answers: the list of topics, from which it knows their names, is older."""
    describe = scripted.answers[32]

    def deleted(request):
        answer = describe(request)
        for one in answer.results:
            if one.resource_name == "others":
                one.error_code, one.configs = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []
        return answer

    scripted.answers[32] = deleted
    world.throttled({0: (1, 3)})
    assert world.settings == {}


@pytest.mark.parametrize("rate", [None, RATE])
def test_a_list_that_the_run_has_not_set_is_left_alone(world, rate):
    """An administrator throttles another topic for reasons of their own."""
    theirs = throttle_of("others", "*", "*") | rates(4)
    world.settings |= theirs
    world.throttled({0: (1, 3)}, rate=rate)
    assert world.settings == theirs
    (said,) = world.said
    assert said.startswith("Throttled replicas stay with others: this run has not set them.")
