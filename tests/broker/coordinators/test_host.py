"""The shards of a kind of coordinator: found by key, loaded when led, closed when not."""

from types import SimpleNamespace

import pytest

from stratalog.broker.coordinators.driver_state import DriverState
from stratalog.broker.coordinators.host import CoordinatorHost
from stratalog.broker.coordinators.shard_driver import DriverServices
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.partitioner import coordinator_partition


@pytest.fixture
def host(rig, events):
    """A host of the topic ``keys``, which has one partition here of four."""
    image = SimpleNamespace(topics=SimpleNamespace(by_name={}))
    services = DriverServices(
        clock=rig.driver._services.clock,
        tick=rig.driver._services.tick,
        perform=lambda *_: None,
        on_active=lambda _: None,
    )
    made = CoordinatorHost("keys", lambda _: events.Keys(), services, lambda: image)
    made.image = image
    yield made
    made.close()


def code_of(function, *arguments) -> ErrorCode:
    """The code of the error it raises."""
    with pytest.raises(KafkaError) as caught:
        function(*arguments)
    return caught.value.code


async def test_a_key_is_coordinated_where_its_hash_is_led(rig, host):
    """NOT_COORDINATOR before the topic is there and for partitions led elsewhere, LOAD_IN_PROGRESS while it is read."""
    assert host.partition_of("a") is None
    assert code_of(host.of, "a") is ErrorCode.NOT_COORDINATOR
    host.image.topics.by_name["keys"] = SimpleNamespace(partitions=dict.fromkeys(range(4)))
    here = next(key for key in "abcdefgh" if coordinator_partition(key, 4) == 0)
    elsewhere = next(key for key in "abcdefgh" if coordinator_partition(key, 4) != 0)
    host.led(rig.unified)
    assert host.loading
    assert code_of(host.of, here) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await rig.until(lambda: not host.loading)
    assert host.of(here).partition_number == 0
    assert code_of(host.of, elsewhere) is ErrorCode.NOT_COORDINATOR


async def test_long_keys_are_not_remembered_and_too_long_ones_refused(host):
    """A made-up key of more than 256 characters is not kept, one above the limit of a string is refused."""
    host.image.topics.by_name["keys"] = SimpleNamespace(partitions=dict.fromkeys(range(4)))
    for key in ("k" * 256, "k" * 257, "k" * 32_767):
        assert host.partition_of(key) == coordinator_partition(key, 4)
    assert host._partition_of.cache_info().currsize == 1
    assert code_of(host.partition_of, "k" * 32_768) is ErrorCode.INVALID_REQUEST


async def test_partitions_of_other_topics_and_those_led_before_are_left_alone(rig, host):
    """Changed settings of a topic load nothing anew."""
    host.led(SimpleNamespace(topic_partition=("other", 0)))
    assert list(host) == []
    host.led(rig.unified)
    first = list(host)
    host.led(rig.unified)
    assert list(host) == first
    host.released(SimpleNamespace(topic_partition=("other", 0)))
    assert list(host) == first
    host.released(rig.unified)
    assert list(host) == []
    assert first[0].state is DriverState.CLOSED


async def test_a_new_leader_epoch_loads_a_shard_of_its_own(rig, host):
    """Writes of the shard before go nowhere: it is closed, and its role refuses them."""
    host.led(rig.unified)
    await rig.until(lambda: not host.loading)
    (before,) = host
    assert before.epoch == 3
    rig.partition.lead(0, 4, replicas=[0], in_sync=[0])
    host.led(rig.unified)
    (after,) = host
    assert (before.state, after.state) == (DriverState.CLOSED, DriverState.LOADING)
    assert (before.epoch, after.epoch) == (3, 4)
    await rig.until(lambda: not host.loading)
    assert after.leader is rig.partition.leader


async def test_an_unreadable_log_is_named(rig, host):
    """For the readiness page."""
    host.led(rig.unified)
    await rig.until(lambda: not host.loading)
    assert host.failures() == []
    (driver,) = host
    driver.state, driver.failure = DriverState.FAILED, "damaged"
    assert host.failures() == ["keys-0: damaged"]


async def test_a_drained_host_takes_nothing(rig, host):
    """Requests are sent to find the next coordinator."""
    host.led(rig.unified)
    await rig.until(lambda: not host.loading)
    host.drain()
    assert code_of(host.driver, 0) is ErrorCode.NOT_COORDINATOR
