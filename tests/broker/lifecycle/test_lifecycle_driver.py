"""A broker's registration over loopback, at a controller that decides by the rules of ours."""

import asyncio
import logging
import random
import time
from dataclasses import replace as with_changes
from itertools import count

import pytest
from msgspec.structs import replace

from stratalog.broker.lifecycle.lifecycle_driver import BrokerSelf, Lifecycle, LifecycleEnded
from stratalog.broker.lifecycle.lifecycle_events import End, LifecycleTimes, Phase
from stratalog.metadata.controller.broker_registration import BrokerRegistration
from stratalog.metadata.controller.heartbeat_commands import Heartbeat, answer_heartbeat
from stratalog.metadata.image.brokers_image import ListenerAddress, SupportedLevels
from stratalog.metadata.image.features import SUPPORTED_FEATURES
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from stratalog.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from stratalog.wire.records.metadata import UnregisterBrokerRecord
from tests.metadata.controller.conftest import CLUSTER_ID, World

TIMES = LifecycleTimes(
    heartbeat_interval_ms=100, session_timeout_ms=1500, registration_timeout_ms=1200, directory_timeout_ms=500
)
DIRECTORIES = (b"b" * 16, b"a" * 16)


class WorldController:
    """Answers requests by the controller's rules; its image is the one that the broker has applied."""

    def __init__(self):
        self.world = World()
        self.error = None
        self.silent = False

    @property
    def image(self):
        return self.world.image

    def __call__(self, request):
        if self.silent:
            return None
        is_registration = isinstance(request, BrokerRegistrationRequest)
        try:
            if self.error is not None:
                raise KafkaError(self.error)
            self.world.now_ms = int(time.monotonic() * 1000)
            return self.register(request) if is_registration else self.beat(request)
        except KafkaError as error:
            kind = BrokerRegistrationResponse if is_registration else BrokerHeartbeatResponse
            return kind(error_code=error.code, **({} if is_registration else {"should_shut_down": False}))

    def register(self, request):
        asked = BrokerRegistration(
            broker_id=request.broker_id,
            cluster_id=request.cluster_id,
            incarnation_id=bytes(request.incarnation_id),
            listeners={
                one.name: ListenerAddress(one.host, one.port, one.security_protocol) for one in request.listeners
            },
            features={
                one.name: SupportedLevels(one.min_supported_version, one.max_supported_version)
                for one in request.features
            },
            rack=request.rack,
            directories=tuple(bytes(one) for one in request.log_dirs),
            previous_broker_epoch=request.previous_broker_epoch,
        )
        return BrokerRegistrationResponse(broker_epoch=self.world.register(asked))

    def beat(self, request):
        beat = Heartbeat(
            broker_id=request.broker_id,
            broker_epoch=request.broker_epoch,
            metadata_offset=request.current_metadata_offset,
            wants_fence=request.want_fence,
            wants_shutdown=request.want_shut_down,
            offline_directories=tuple(bytes(one) for one in request.offline_log_dirs),
            cordoned_directories=None if request.cordoned_log_dirs is None else tuple(request.cordoned_log_dirs),
        )
        world = self.world
        world.heartbeats.contacted(beat.broker_id, beat.broker_epoch, world.now_ms)
        offset = world.next_offset
        done = world.do(answer_heartbeat(world.heartbeats, world.view, beat, now_ms=world.now_ms, next_offset=offset))
        return BrokerHeartbeatResponse(
            is_caught_up=done.is_caught_up, is_fenced=done.is_fenced, should_shut_down=done.should_shut_down
        )


@pytest.fixture
def rules():
    return WorldController()


@pytest.fixture
async def node(rules, controller, quorum):
    """The controller, elected."""
    started = await controller(rules)
    quorum.elect(9, started.port)
    return started


@pytest.fixture
async def new_lifecycle(rules, new_channel, quorum):
    """Builds lifecycles, whose failures are in ``failed``; all are closed after the test."""
    built, dice, incarnations = [], random.Random(1), count(1)

    def build(times=TIMES, **fields):
        me = BrokerSelf(
            **{
                "broker_id": 4,
                "cluster_id": CLUSTER_ID,
                "listeners": {"PLAINTEXT": ListenerAddress("here", 9092)},
                "features": SUPPORTED_FEATURES,
                "directories": lambda: DIRECTORIES,
                "rack": "r1",
                "previous_broker_epoch": 3,
                **fields,
            }
        )
        failed, lost = [], []
        one = Lifecycle(
            me,
            times,
            channel=new_channel(),
            quorum=quorum,
            image=lambda: rules.image,
            monotonic=time.monotonic,
            draw=dice.random,
            new_incarnation=lambda: next(incarnations).to_bytes(16, "big"),
            on_failed=failed.append,
            on_registration_lost=lambda: lost.append(one.phase),
        )
        one.failed, one.lost = failed, lost
        built.append(one)
        return one

    yield build
    for one in built:
        one.close()
        one.close()


async def unfenced(one):
    """Bring it as far as it goes."""
    one.start()
    await one.caught_up()
    one.logs_opened()
    await one.unfenced()


async def test_a_broker_registers_catches_up_serves_and_leaves(node, rules, new_lifecycle, until):
    """Every field of the registration arrives; heartbeats come each interval; the controller lets it go."""
    one = new_lifecycle()
    one.start()
    epoch = await one.registered()
    asked = node.messages(BrokerRegistrationRequest)[0]
    assert (asked.broker_id, asked.cluster_id, asked.rack) == (4, CLUSTER_ID, "r1")
    assert (asked.previous_broker_epoch, [bytes(each) for each in asked.log_dirs]) == (3, sorted(DIRECTORIES))
    assert [(at.name, at.host, at.port) for at in asked.listeners] == [("PLAINTEXT", "here", 9092)]
    assert {f.name: (f.min_supported_version, f.max_supported_version) for f in asked.features} == SUPPORTED_FEATURES
    await one.caught_up()
    assert not one.in_contact
    one.logs_opened()
    await one.unfenced()
    broker = rules.image.brokers.brokers[4]
    assert (broker.epoch, broker.is_fenced, broker.incarnation_id) == (epoch, False, one.incarnation_id)
    assert (one.phase, one.broker_epoch, one.in_contact) == (Phase.RUNNING, epoch, True)
    count_before = len(node.messages(BrokerHeartbeatRequest))
    await until(lambda: len(node.messages(BrokerHeartbeatRequest)) >= count_before + 3)
    beats = node.messages(BrokerHeartbeatRequest)
    assert beats[0].cordoned_log_dirs is None
    assert (beats[-1].cordoned_log_dirs, beats[-1].current_metadata_offset) == ([], rules.world.next_offset - 1)
    assert await one.shut_down(5000) is End.MAY_STOP
    assert rules.image.brokers.brokers[4].is_fenced
    assert (one.failed, one.in_contact) == ([], False)


async def test_a_broker_that_leads_waits_until_all_have_seen_that_it_does_not(node, rules, new_lifecycle):
    """The controller moves what it leads, and lets it go when another broker has seen it."""
    rules.world.start(2)
    one = new_lifecycle()
    await unfenced(one)
    rules.world.topic("t", (4, 2))
    stopping = asyncio.ensure_future(one.shut_down(5000))
    await asyncio.sleep(0.2)
    assert (rules.world.sets(), stopping.done(), one.phase) == ((2, (2,), ()), False, Phase.STOPPING)
    rules.world.beat(2)
    assert await stopping is End.MAY_STOP


async def test_a_forgotten_broker_registers_anew_and_serves_again(node, rules, new_lifecycle, until):
    """With a new incarnation and a new epoch; the node hears of it."""
    one = new_lifecycle()
    await unfenced(one)
    before = (one.broker_epoch, one.incarnation_id)
    rules.world.write((UnregisterBrokerRecord(broker_id=4, broker_epoch=one.broker_epoch),))
    rules.world.heartbeats.forgotten(4)
    await until(lambda: one.lost)
    await until(lambda: one.phase is Phase.RUNNING)
    assert one.broker_epoch > before[0]
    assert one.incarnation_id != before[1]
    assert not rules.image.brokers.brokers[4].is_fenced


async def test_a_new_controller_is_asked_at_once(node, rules, controller, quorum, new_lifecycle, until):
    """The silence of the one before costs no session: its connection ends with its leadership."""
    one = new_lifecycle()
    await unfenced(one)
    rules.silent = True
    asked = len(node.asked)
    await until(lambda: len(node.asked) > asked)
    rules.silent = False
    other = await controller(rules)
    begun = time.monotonic()
    quorum.elect(8, other.port)
    await until(lambda: other.asked)
    assert time.monotonic() - begun < 0.7
    await until(lambda: one.in_contact)
    assert not one.lost


async def test_a_controller_that_is_not_active_is_asked_again(node, rules, new_lifecycle, until, caplog):
    """The same refusal is said once, however often it comes."""
    caplog.set_level(logging.WARNING)
    rules.error = ErrorCode.NOT_CONTROLLER
    one = new_lifecycle(LifecycleTimes(heartbeat_interval_ms=100))
    one.start()
    await until(lambda: len(node.asked) >= 4)
    rules.error = None
    await one.caught_up()
    lines = [record.message for record in caplog.records]
    assert lines == [
        "broker 4: BrokerRegistration: the node that was asked is not the active controller, or not yet; it is asked again"
    ]


async def test_a_broker_that_cannot_be_registered_in_time_says_why(node, rules, new_lifecycle):
    """All who wait for it hear so, and the process is to end."""
    rules.error = ErrorCode.DUPLICATE_BROKER_REGISTRATION
    one = new_lifecycle()
    one.start()
    text = r"broker 4: .* could not be registered in time \(error 101, DUPLICATE_BROKER_REGISTRATION\)"
    with pytest.raises(LifecycleEnded, match=text):
        await one.unfenced()
    assert len(one.failed) == 1
    with pytest.raises(LifecycleEnded):
        await one.registered()
    assert await one.shut_down(1) is End.NOT_REGISTERED_IN_TIME


async def test_a_failed_directory_is_reported_or_ends_the_process(node, rules, new_lifecycle, until):
    """At once, while the controller answers."""
    one = new_lifecycle()
    await unfenced(one)
    one.directory_failed(DIRECTORIES[0])
    await until(lambda: rules.image.brokers.brokers[4].directories == (DIRECTORIES[1],))
    assert list(node.messages(BrokerHeartbeatRequest)[-1].offline_log_dirs) == [DIRECTORIES[0]]
    rules.silent = True
    one.directory_failed(DIRECTORIES[1])
    await until(lambda: one.failed)
    assert "directory could not be reported" in one.failed[0]


async def test_a_registration_whose_image_lacks_a_directory_is_sent_again(node, rules, new_lifecycle, until):
    """Once, under the same epoch, and without being fenced."""
    directories = list(DIRECTORIES)
    one = new_lifecycle(directories=lambda: tuple(directories))
    await unfenced(one)
    directories.append(b"c" * 16)
    for _ in range(3):
        one.image_applied(rules.image)
    await until(lambda: len(rules.image.brokers.brokers[4].directories) == 3)
    one.image_applied(rules.image)
    await asyncio.sleep(0.05)
    assert len(node.messages(BrokerRegistrationRequest)) == 2
    broker = rules.image.brokers.brokers[4]
    assert (broker.epoch, broker.is_fenced) == (one.broker_epoch, False)


async def test_a_broker_says_how_far_its_image_is_when_another_begins_to_stop(node, rules, new_lifecycle, until):
    """Once for each that begins, and not with the next interval only."""
    one = new_lifecycle(times=LifecycleTimes(heartbeat_interval_ms=60_000))
    await unfenced(one)
    image, beats = rules.image, len(node.messages(BrokerHeartbeatRequest))
    mine = image.brokers.brokers[4]
    for stopping in (False, True, True):
        other = replace(mine, broker_id=5, in_controlled_shutdown=stopping)
        image = with_changes(image, brokers=replace(image.brokers, brokers={4: mine, 5: other}))
        one.image_applied(image)
        one.image_applied(image)
        if stopping:
            await until(lambda: len(node.messages(BrokerHeartbeatRequest)) == beats + 1)
    await asyncio.sleep(0.02)
    assert len(node.messages(BrokerHeartbeatRequest)) == beats + 1


async def test_a_closed_lifecycle_sends_nothing(node, rules, new_lifecycle):
    """A broker that never served is not asked for, either."""
    one = new_lifecycle()
    await unfenced(one)
    one.close()
    asked = len(node.asked)
    await asyncio.sleep(0.25)
    assert len(node.asked) <= asked + 1
    assert await one.shut_down(1000) is End.NEVER_SERVED
    two = new_lifecycle(broker_id=5)
    two.start()
    assert await two.shut_down(1000) is End.NEVER_SERVED
