"""Bugs that were put into the nodes of a cluster on purpose: the simulation has to find each within 200 seeds."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from sim.cluster.member import SESSION_SECONDS
from sim.cluster.plan import Plan
from sim.cluster.world import run_seed
from stratalog.broker.api import allocate_producer_ids as allocate_api
from stratalog.broker.api import create_topics as create_api
from stratalog.broker.control import broker_sessions
from stratalog.broker.controller_role import ControllerRole
from stratalog.broker.lifecycle.broker_lifecycle import BrokerLifecycle
from stratalog.broker.lifecycle.lifecycle_events import FencedAgain
from stratalog.broker.quorum.proposals import Proposals
from stratalog.metadata.controller import broker_changes, heartbeat_commands
from stratalog.metadata.controller.controller import BrokerHeartbeats, Failure
from stratalog.metadata.image import snapshot
from stratalog.metadata.image.decision import Decision
from stratalog.wire.records.metadata import BrokerRegistrationChangeRecord, ConfigRecord, TopicRecord

Bug = Callable[[pytest.MonkeyPatch], None]


def a_new_controller_goes_on_with_old_sessions(patch):
    """Brokers are heard of as long ago as the election took, as it thinks."""
    real = BrokerHeartbeats.take_over

    def old(self, image, now_ms):
        real(self, image, now_ms - int(SESSION_SECONDS * 1000) + 500)

    patch.setattr(BrokerHeartbeats, "take_over", old)


def a_fenced_broker_keeps_what_it_leads(patch):
    """Only the broker's own record is written."""

    def fencing(view, broker_ids):
        yield
        brokers = [view.image.brokers.brokers[each] for each in broker_ids]
        records = [
            BrokerRegistrationChangeRecord(broker_id=each.broker_id, broker_epoch=each.epoch, fenced=1)
            for each in brokers
            if not each.is_fenced
        ]
        return Decision(tuple(records), None)

    patch.setattr(heartbeat_commands, "fencing_brokers", fencing)


def an_unfenced_broker_leads_nothing(patch):
    """Its partitions stay without a leader."""

    def unfencing(view, broker):
        yield
        record = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=-1)
        return Decision((record,), None)

    patch.setattr(heartbeat_commands, "unfencing_broker", unfencing)


def commands_are_answered_before_their_commit(patch):
    """The leader may be gone before another controller has them."""

    async def answer(self, done, end_offset):
        self._written.pop(done, None)
        if not done.done():
            done.set_result(end_offset - 1)

    patch.setattr(Proposals, "_answer", answer)


def a_block_of_producer_ids_is_given_twice(patch):
    """Without a record of it."""
    real = allocate_api.allocate_producer_ids
    patch.setattr(allocate_api, "allocate_producer_ids", lambda *about: replace(real(*about), records=()))


def topics_share_an_id(patch):
    """There are only four."""
    numbers = iter(range(1, 1_000_000))
    patch.setattr(ControllerRole, "new_topic_id", staticmethod(lambda: bytes([next(numbers) % 4 + 1]) * 16))


def snapshots_lack_settings(patch):
    """A node that begins with a snapshot has no settings."""
    real = snapshot.image_records
    patch.setattr(
        snapshot, "image_records", lambda image: (one for one in real(image) if not isinstance(one, ConfigRecord))
    )


def a_fenced_broker_never_asks_again(patch):
    """It goes on with heartbeats that ask to be fenced."""
    real = BrokerLifecycle.step

    def humble(self, event, now_ms):
        actions = real(self, event, now_ms)
        if any(isinstance(action, FencedAgain) for action in actions):
            self._logs_open = False
        return actions

    patch.setattr(BrokerLifecycle, "step", humble)


def a_refused_topic_is_there(patch):
    """Its record is written before its settings are looked at."""
    real = create_api.creating_topics

    def creating(image, topics, rules, **more):
        decision = yield from real(image, topics, rules, **more)
        refused = [
            TopicRecord(name=name, topic_id=more["new_topic_id"]())
            for name, result in decision.result
            if isinstance(result, Failure) and name not in image.topics.by_name
        ]
        return replace(decision, records=(*decision.records, *refused))

    patch.setattr(create_api, "creating_topics", creating)


def all_registrations_have_one_epoch(patch):
    """A process of before speaks for the one of now."""
    real = broker_sessions.registering

    def registering(*about, **more):
        return real(*about, **{**more, "next_offset": 7})

    patch.setattr(broker_sessions, "registering", registering)


def a_stopping_broker_leaves_the_images_to_chance(patch):
    """Its partitions are moved without a record that it leaves."""

    def beginning(view, broker):
        yield
        record = BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=1
        )
        return Decision((record,), None)

    patch.setattr(heartbeat_commands, "beginning_shutdown", beginning)
    assert broker_changes.beginning_shutdown is not beginning


FOUND: dict[Bug, str] = {
    a_new_controller_goes_on_with_old_sessions: "less than its session",
    a_fenced_broker_keeps_what_it_leads: "which is fenced or leaves",
    an_unfenced_broker_leads_nothing: "has no leader, and the broker",
    commands_are_answered_before_their_commit: "lacks topic|is answered with|has the id|creation was refused|not None|not [0-9]",
    a_block_of_producer_ids_is_given_twice: "was given to",
    topics_share_an_id: "have one id|has the id|Corrupt|cannot be applied",
    snapshots_lack_settings: "another image",
    a_fenced_broker_never_asks_again: "are fenced",
    a_refused_topic_is_there: "creation was refused",
    all_registrations_have_one_epoch: "goes back|registered twice|not ready",
    a_stopping_broker_leaves_the_images_to_chance: "which is fenced or leaves",
}
"""Each bug, and what the promise that finds it says."""
FEW = Plan(controllers=3, brokers=2, faults=("kill",), fault_every=0.7, fault_seconds=8.0, pause_every=0.1)
PLANS: dict[Bug, Plan] = {
    a_new_controller_goes_on_with_old_sessions: replace(FEW, faults=("kill", "freeze"), fault_seconds=12.0),
    a_fenced_broker_keeps_what_it_leads: replace(FEW, faults=("freeze", "isolate"), fault_seconds=15.0),
    a_fenced_broker_never_asks_again: replace(FEW, faults=("freeze", "isolate"), fault_seconds=15.0),
    commands_are_answered_before_their_commit: replace(FEW, faults=("split",), fault_every=1.5),
    snapshots_lack_settings: replace(FEW, faults=("wipe",), small_snapshots=True),
    a_stopping_broker_leaves_the_images_to_chance: replace(FEW, faults=("stop",)),
}
"""Surroundings in which a rare story is less rare."""
SEEDS_MAX = 200


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("bug", FOUND, ids=lambda bug: bug.__name__)
def test_every_bug_is_found(bug, monkeypatch):
    """By a promise that says what is wrong."""
    bug(monkeypatch)
    outcomes = (run_seed(seed, plan=PLANS.get(bug, FEW)) for seed in range(SEEDS_MAX))
    found = next((outcome for outcome in outcomes if outcome.problem is not None), None)
    assert found is not None, f"{SEEDS_MAX} seeds did not find it"
    print(f"seed {found.seed}: {found.problem}")
    assert re.search(FOUND[bug], found.problem), found.problem
