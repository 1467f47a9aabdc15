"""The duties of an active controller, in virtual time."""

import asyncio
import logging

import pytest

from stratalog.broker.control import controller_duties
from stratalog.broker.control.controller_duties import ControllerDuties, DutyServices, DutySettings
from stratalog.metadata.controller import elections
from stratalog.metadata.controller.controller import Heartbeat
from stratalog.metadata.image.decision import Decision
from stratalog.metadata.image.image import ImageDelta
from stratalog.metadata.settings.configs import ConfigSource, resolve_broker_config
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import (
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)

LEVEL = FeatureLevelRecord(name="metadata.version", feature_level=12)
BEAT = Heartbeat(broker_id=1, broker_epoch=0, metadata_offset=0)


@pytest.fixture
def duties_of(memory_controller):
    """Make a controller with duties that is not active yet."""

    def make(is_new=False, **settings):
        one = memory_controller(active=False, is_new=is_new, bootstrap=(LEVEL,) if is_new else ())
        values = {"balance_seconds": 0, "idle_seconds": 0, "unclean_seconds": 0, **settings}
        services = DutyServices(
            control=one.control,
            cluster=one.cluster,
            clock=one.clock,
            settings=DutySettings(**values),
        )
        one.others.append(ControllerDuties(services))
        return one

    return make


def signs(one):
    return sum(isinstance(record, NoOpRecord) for record in one.log.records)


def test_a_new_cluster_begins_when_its_first_controller_is_active(duties_of):
    """Once, not with each office."""
    one = duties_of(is_new=True)
    one.pass_ms(1000)
    assert one.log.records == []
    one.become_active()
    one.pass_ms(1)
    assert one.log.records == [LEVEL]
    one.resign()
    one.become_active(2)
    one.pass_ms(1)
    assert one.log.records == [LEVEL]


def test_first_records_that_fail_are_tried_again_while_the_office_lasts(duties_of, caplog):
    """A full disk; a lost office is no failure."""
    one = duties_of(is_new=True)
    one.log.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")
    one.become_active()
    one.pass_ms(1500)
    assert "tried again: KAFKA_STORAGE_ERROR: the disk is full" in caplog.text
    one.log.error = None
    one.pass_ms(1000)
    assert one.log.records == [LEVEL]
    caplog.clear()
    one.log.error = KafkaError(ErrorCode.NOT_CONTROLLER)
    one.become_active(2)
    one.pass_ms(5000)
    assert not caplog.records


def test_brokers_are_not_heard_before_the_first_records(duties_of):
    """The disk refuses them: a registration hears so and leaves nothing, and comes behind them when there is room."""
    one = duties_of(is_new=True)
    one.log.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")
    one.become_active()
    one.pass_ms(1)
    for heard in (one.sessions.register(one.registration(1), source=1), one.sessions.heartbeat(BEAT, source=1)):
        with pytest.raises(KafkaError, match="the disk is full"):
            one.run(heard)
    one.log.error = None
    one.start(1)
    assert one.log.records[0] == LEVEL
    assert isinstance(one.log.records[1], RegisterBrokerRecord)
    assert one.active() == [1]


def test_a_silent_log_gets_a_sign_of_life_and_a_busy_one_none(duties_of):
    """metadata.max.idle.interval.ms after the last record."""
    one = duties_of(idle_seconds=0.5)
    one.become_active()
    one.pass_ms(499)
    assert signs(one) == 0
    one.pass_ms(1)
    one.pass_ms(1)
    assert signs(one) == 1
    for _ in range(10):
        one.pass_ms(300)
        one.write(ConfigRecord(resource_type=4, resource_name="", name="a", value="b"))
    assert signs(one) == 1
    one.pass_ms(1100)
    assert signs(one) == 3


def test_a_controller_that_is_not_active_does_nothing(duties_of):
    """Another one does it."""
    one = duties_of(idle_seconds=0.5, balance_seconds=1, unclean_seconds=1)
    one.become_active()
    one.resign()
    one.topic("t")
    count = len(one.log.records)
    one.pass_ms(10_000)
    assert len(one.log.records) == count


@pytest.mark.parametrize("most", [1000, 2], ids=["one round", "several rounds"])
def test_preferred_replicas_get_their_leaderships_back(duties_of, monkeypatch, caplog, most):
    """At the interval, in rounds that follow at once; no record if all is well."""
    monkeypatch.setattr(elections.balancing_leaders, "__kwdefaults__", {"elections_max": most})
    one = duties_of(balance_seconds=300)
    one.become_active()
    one.start(1, 2)
    one.topic("t", *[(1, 2)] * 5)
    one.beat(1, wants_fence=True)
    one.beat(1)
    for number in range(5):
        one.write(one.grown("t", number, (1, 2)))
    assert {state.leader for state in one.image.topics.by_name["t"].partitions.values()} == {2}

    async def alive(seconds):
        for _ in range(seconds):
            await asyncio.sleep(1)
            await asyncio.gather(one.beating(1), one.beating(2))

    with caplog.at_level(logging.INFO):
        one.run(alive(298))
        assert {state.leader for state in one.image.topics.by_name["t"].partitions.values()} == {2}
        one.run(alive(3))
    assert {state.leader for state in one.image.topics.by_name["t"].partitions.values()} == {1}
    assert "balance of leaders: 5 partitions have another leader" in caplog.text
    count = len(one.log.records)
    one.run(alive(310))
    assert len(one.log.records) == count


def half_unfenced(one, refusal):
    """Unfence the broker of 1,400 partitions without a leader; the second batch of the records is refused."""
    one.become_active()
    one.start(1, 2)
    for name in ("t", "u"):
        one.topic(name, *[(1,)] * 700)
    one.beat(1, wants_fence=True)
    propose, one.log.batches = one.log.propose, 0

    def refusing(records, *, epoch):
        one.log.batches += 1
        one.log.error = KafkaError(refusal) if one.log.batches > 1 else None
        return propose(records, epoch=epoch)

    one.log.propose = refusing
    with pytest.raises(KafkaError):
        one.beat(1)
    one.log.propose, one.log.error = propose, None
    assert one.active() == [1, 2]
    assert 0 < leaderless(one) < 1400


def leaderless(one):
    return sum(state.leader < 0 for name in ("t", "u") for state in one.image.topics.by_name[name].partitions.values())


def test_the_next_office_holds_the_elections_that_one_before_left_out(duties_of):
    """A broker asks once to be unfenced, and the controller that elected it for some of its partitions is gone."""
    one = duties_of()
    half_unfenced(one, ErrorCode.NOT_CONTROLLER)
    one.resign()
    one.become_active(2)
    one.pass_ms(10)
    assert leaderless(one) == 0


def test_elections_that_a_full_disk_refused_are_held_at_the_interval(duties_of):
    """There is room again."""
    one = duties_of(unclean_seconds=5)
    half_unfenced(one, ErrorCode.KAFKA_STORAGE_ERROR)
    one.pass_ms(4900)
    assert leaderless(one) > 0
    one.pass_ms(200)
    assert leaderless(one) == 0


def unclean(kind, name, value="true"):
    return ConfigRecord(resource_type=kind, resource_name=name, name="unclean.leader.election.enable", value=value)


def without_leader(one, *names):
    """Topics whose last member is gone, and whose other replica is up."""
    one.become_active()
    one.start(1, 2)
    for name in names:
        one.topic(name, (1, 2), in_sync=(1,))
    one.beat(1, wants_fence=True)
    assert [one.state(name).leader for name in names] == [-1] * len(names)


def test_a_topic_that_allows_it_gets_an_unclean_leader(duties_of):
    """The last member is gone; another replica takes over at the interval, where the topic allows it."""
    one = duties_of(unclean_seconds=5)
    one.become_active()
    one.start(1, 2)
    one.beat(1, wants_fence=True)
    one.write(unclean(2, "t"))
    for name in ("safe", "t"):
        topic_id = one.topic(name, (1, 2), in_sync=(1,))
        one.write(PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=-1))
    one.pass_ms(4900)
    assert [one.state(name).leader for name in ("safe", "t")] == [-1, -1]
    one.pass_ms(200)
    assert [one.state(name).leader for name in ("safe", "t")] == [-1, 2]
    assert one.state("t").in_sync_replicas == (2,)


@pytest.mark.parametrize(
    ("changed", "leaders"),
    [(unclean(2, "t"), [-1, 2]), (unclean(4, ""), [2, 2]), (unclean(4, "100"), [2, 2]), (unclean(4, "7"), [-1, -1])],
    ids=["topic", "cluster", "controller", "broker"],
)
def test_a_new_setting_of_unclean_elections_holds_at_once(duties_of, changed, leaders):
    """That of the topic, of the cluster, or of the node that decides; that of another node decides about no partition."""
    one = duties_of(unclean_seconds=300)
    without_leader(one, "safe", "t")
    one.write(ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1"))
    one.pass_ms(10)
    assert one.state("t").leader == -1
    one.write(changed)
    one.pass_ms(10)
    assert [one.state(name).leader for name in ("safe", "t")] == leaders


def test_a_setting_that_changes_during_a_look_is_looked_at(duties_of, monkeypatch):
    """Partitions that the look has passed may be those that may have a leader now."""
    one = duties_of(unclean_seconds=300)
    without_leader(one, "t")
    looks = []

    def looking(view):
        looks.append(view)
        if len(looks) == 1:
            delta = ImageDelta(view.image)
            delta.replay(unclean(2, "t"))
            one.others[0].follow(delta.build(view.image.provenance), delta)
        yield
        return Decision((), result=False)

    monkeypatch.setattr(controller_duties, "electing_uncleanly", looking)
    one.write(unclean(2, "other"))
    one.pass_ms(10)
    assert len(looks) == 2


def test_a_duty_that_fails_is_logged_and_comes_again(duties_of, caplog):
    """The next sign of life is at the next interval."""
    one = duties_of(idle_seconds=1)
    one.become_active()
    one.pass_ms(1)
    one.log.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")
    one.pass_ms(1100)
    assert "sign of life of the active controller failed: KAFKA_STORAGE_ERROR" in caplog.text
    one.log.error = None
    one.pass_ms(1100)
    assert signs(one) == 1


def test_one_that_takes_longer_than_its_interval_is_not_begun_twice(duties_of):
    """The disk is slow."""
    one = duties_of(idle_seconds=0.5)
    one.become_active()
    one.pass_ms(1)
    one.log.open.clear()
    one.pass_ms(5000)
    one.log.open.set()
    one.pass_ms(10)
    assert signs(one) == 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, DutySettings(balance_seconds=300, idle_seconds=0.5, unclean_seconds=300)),
        (
            {
                "auto.leader.rebalance.enable": "false",
                "metadata.max.idle.interval.ms": "0",
            },
            DutySettings(balance_seconds=0, idle_seconds=0, unclean_seconds=300),
        ),
        (
            {"leader.imbalance.check.interval.seconds": "7", "unclean.leader.election.interval.ms": "9500"},
            DutySettings(balance_seconds=7, idle_seconds=0.5, unclean_seconds=9.5),
        ),
    ],
)
def test_settings_have_kafkas_names(given, expected):
    """Those of the file; 0 is never."""
    entries = resolve_broker_config(given)
    assert {entry.source for name, entry in entries.items() if name in given} <= {ConfigSource.STATIC_BROKER_CONFIG}
    assert DutySettings.of({name: entry.value for name, entry in entries.items()}) == expected
