"""The broker's machine and the controller's rules, with requests and answers that are lost, late and repeated."""

import heapq
import random
from itertools import count

import pytest

from stratalog.broker.lifecycle.broker_lifecycle import BrokerLifecycle
from stratalog.broker.lifecycle.lifecycle_events import (
    Beat,
    BeatAnswered,
    CaughtUp,
    End,
    Ended,
    LeaderChanged,
    LifecycleTimes,
    LogsOpened,
    MetadataProgress,
    Phase,
    Refused,
    Register,
    Registered,
    Started,
    StopWanted,
    Ticked,
    Unanswered,
    Unfenced,
)
from stratalog.metadata.controller.broker_heartbeats import BrokerHeartbeats
from stratalog.metadata.controller.heartbeat_commands import Heartbeat, answer_heartbeat
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import UnregisterBrokerRecord
from tests.metadata.controller.conftest import SESSION_MS, World

BROKER = 1
TIMEOUT_MS = 4500
CHAOS_MS = 60_000
END_MS = CHAOS_MS + 90_000


class Process:
    """A broker process: its machine, its image of the past, and whether it lives."""

    def __init__(self, sim, number, previous_epoch):
        self.sim, self.number = sim, number
        self.alive = True
        self.lag_ms = sim.dice.choice((0, 20, 700))
        incarnations = (number * 1000 + each for each in count(1))
        self.machine = BrokerLifecycle(
            LifecycleTimes(),
            previous_broker_epoch=previous_epoch,
            new_incarnation=lambda: next(incarnations).to_bytes(16, "big"),
            draw=sim.dice.random,
        )
        self.logs_open = False
        self.unfenced = 0
        self.end = None
        self.step(Started())

    def image(self):
        """Its image: that of the controller, some time ago."""
        return self.sim.image_at(self.sim.now_ms - self.lag_ms)

    def progress(self):
        image = self.image()
        mine = image.brokers.brokers.get(BROKER)
        own = mine is not None and mine.incarnation_id == self.machine.incarnation_id
        known = self.sim.image_at(self.sim.now_ms - self.lag_ms // 2).provenance.offset + 1
        return MetadataProgress(image.provenance.offset, known, mine.epoch if own else -1)

    def step(self, event):
        if not self.alive:
            return
        for action in self.machine.step(event, self.sim.now_ms):
            if isinstance(action, Register | Beat):
                self.check(action)
                self.sim.send(self, action)
            elif isinstance(action, CaughtUp) and not self.logs_open:
                self.sim.later(self.sim.dice.choice((0, 500, 5000)), self.open_logs)
            elif isinstance(action, Unfenced):
                self.unfenced += 1
            elif isinstance(action, Ended):
                self.end, self.alive = action.end, False
        wake_ms = self.machine.wake_at_ms
        if self.alive and wake_ms < END_MS:
            self.sim.later(max(0, wake_ms - self.sim.now_ms), self.tick)

    def tick(self):
        if self.machine.wake_at_ms <= self.sim.now_ms:
            self.step(Ticked())

    def open_logs(self):
        self.logs_open = True
        self.step(LogsOpened())

    def check(self, request):
        """It asks for no fence only with open logs, and once its image had its own registration."""
        if isinstance(request, Beat) and not request.wants_fence:
            assert self.logs_open
            seen = [image for when, image in self.sim.images if when <= self.sim.now_ms - self.lag_ms]
            own = [one.brokers.brokers[BROKER] for one in seen if BROKER in one.brokers.brokers]
            assert (self.machine.incarnation_id, request.broker_epoch) in {
                (one.incarnation_id, one.epoch) for one in own
            }
            self.sim.may_unfence.add(request.broker_epoch)


class Sim:
    """Virtual time, a controller with its rules, and a network that may do anything until the chaos ends."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.now_ms = 0
        self.agenda, self.numbers = [], count()
        self.world = World(elr=self.dice.random() < 0.5)
        self.images = [(-(10**9), EMPTY_IMAGE), (0, self.world.image)]
        self.may_unfence = set()
        self.is_active = True
        self.processes = []

    def later(self, delay_ms, do, *arguments):
        heapq.heappush(self.agenda, (self.now_ms + delay_ms, next(self.numbers), do, arguments))

    def image_at(self, ms):
        return next(image for when, image in reversed(self.images) if when <= ms)

    @property
    def chaos(self):
        return self.now_ms < CHAOS_MS

    def send(self, process, request):
        """Carry a request there, perhaps twice or never, and its answer back, perhaps late or never."""
        lost = self.chaos and self.dice.random() < 0.15
        self.later(TIMEOUT_MS, process.step, Unanswered(request.number))
        for _ in range(0 if lost else 1 + (self.chaos and self.dice.random() < 0.1)):
            late_ms = self.dice.choice((1, 1, 1, 3, 30, 6000, 12_000)) if self.chaos else 2
            self.later(late_ms, self.arrive, process, request)

    def arrive(self, process, request):
        answer = self.answer(process, request)
        if not (self.chaos and self.dice.random() < 0.15):
            back_ms = self.dice.choice((1, 1, 1, 5000)) if self.chaos else 1
            self.later(back_ms, self.deliver, process, request, answer)

    def deliver(self, process, request, answer):
        if isinstance(answer, int) and answer > 0 and isinstance(request, Register):
            process.step(Registered(request.number, answer, process.progress()))
        elif isinstance(answer, int):
            process.step(Refused(request.number, -answer))
        else:
            said = (answer.is_caught_up, answer.is_fenced, answer.should_shut_down)
            process.step(BeatAnswered(request.number, *said, process.progress()))

    def answer(self, process, request):
        """Let the controller decide: an epoch, the answer to a heartbeat, or the negative of an error."""
        world = self.world
        world.now_ms = self.now_ms
        if not self.is_active:
            return -ErrorCode.NOT_CONTROLLER
        try:
            if isinstance(request, Register):
                epoch = request.previous_broker_epoch
                asked = world.registration(BROKER, incarnation_id=request.incarnation_id, previous_broker_epoch=epoch)
                return world.register(asked)
            beat = Heartbeat(
                broker_id=BROKER,
                broker_epoch=request.broker_epoch,
                metadata_offset=process.progress().applied_offset if process.alive else world.next_offset - 1,
                wants_fence=request.wants_fence,
                wants_shutdown=request.wants_shutdown,
            )
            world.heartbeats.contacted(BROKER, beat.broker_epoch, self.now_ms)
            offset = world.next_offset
            view = world.view
            return world.do(answer_heartbeat(world.heartbeats, view, beat, now_ms=self.now_ms, next_offset=offset))
        except KafkaError as error:
            return -error.code
        finally:
            self.look()

    def look(self):
        """Keep the image, and see that an unfenced broker has asked for it in the epoch that it has."""
        if self.world.image is self.images[-1][1]:
            return
        self.images.append((self.now_ms, self.world.image))
        broker = self.world.image.brokers.brokers.get(BROKER)
        assert broker is None or broker.is_fenced or broker.epoch in self.may_unfence

    # -- what happens -------------------------------------------------------------------------------------

    def fence_silent(self):
        if self.is_active:
            self.world.now_ms = self.now_ms
            self.world.tick(0)
            self.look()
        self.later(SESSION_MS // 8, self.fence_silent)

    def restart(self, previous_epoch=-1):
        """The process is killed, and another one started."""
        for each in self.processes:
            each.alive = False
        self.processes.append(Process(self, len(self.processes) + 1, previous_epoch))

    def fail_over(self):
        self.is_active = False
        self.later(self.dice.choice((10, 3000)), self.take_over)

    def take_over(self):
        self.is_active = True
        self.world.heartbeats = BrokerHeartbeats(SESSION_MS)
        self.world.heartbeats.take_over(self.world.image, self.now_ms)
        self.processes[-1].step(LeaderChanged())

    def unregister(self):
        broker = self.world.image.brokers.brokers.get(BROKER)
        if broker is not None:
            self.world.write((UnregisterBrokerRecord(broker_id=BROKER, broker_epoch=broker.epoch),))
            self.world.heartbeats.forgotten(BROKER)
            self.look()

    def run(self):
        self.restart()
        self.fence_silent()
        for _ in range(self.dice.randrange(5)):
            happens = self.dice.choice((self.restart, self.fail_over, self.fail_over, self.unregister))
            self.later(self.dice.randrange(CHAOS_MS), happens)
        self.go_on(END_MS - 30_000)
        return self

    def go_on(self, until_ms):
        while self.agenda and self.agenda[0][0] <= until_ms:
            self.now_ms, _, do, arguments = heapq.heappop(self.agenda)
            do(*arguments)
            if not self.processes[-1].alive and self.processes[-1].end is End.NOT_REGISTERED_IN_TIME:
                self.restart()
        self.now_ms = until_ms


@pytest.mark.parametrize("first_seed", range(0, 120, 20))
def test_a_broker_is_unfenced_in_its_own_epoch_only_and_always_in_the_end(first_seed):
    """Though messages, processes and controllers fail meanwhile; then it leaves in order."""
    for seed in range(first_seed, first_seed + 20):
        sim = Sim(seed).run()
        process, broker = sim.processes[-1], sim.world.image.brokers.brokers[BROKER]
        assert process.machine.phase is Phase.RUNNING, seed
        assert process.machine.in_contact(sim.now_ms), seed
        assert process.unfenced, seed
        assert (broker.epoch, broker.is_fenced) == (process.machine.broker_epoch, False), seed
        process.step(StopWanted(20_000))
        sim.go_on(sim.now_ms + 20_000)
        assert process.end is End.MAY_STOP, seed
        assert sim.world.image.brokers.brokers[BROKER].is_fenced, seed


def test_a_quiet_start_takes_the_time_of_its_answers():
    """No wait is longer than that of a broker that catches up, and a clean successor keeps its membership."""
    sim = Sim(1)
    sim.now_ms = CHAOS_MS
    sim.restart()
    sim.processes[0].lag_ms = 0
    sim.later = lambda delay_ms, do, *rest, later=sim.later: later(min(delay_ms, 20), do, *rest)
    sim.go_on(CHAOS_MS + 100)
    assert sim.processes[0].machine.phase is Phase.RUNNING
