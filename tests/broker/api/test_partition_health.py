"""The leader and the offline replicas of a partition, as clients see them."""

from types import SimpleNamespace

import pytest

from stratalog.broker.api.partition_health import partition_health
from stratalog.metadata.image.brokers_image import BrokerImage, BrokersImage, ListenerAddress
from stratalog.metadata.image.topics_image import PartitionImage
from stratalog.wire.errors import ErrorCode


def broker(*, led=True, offline=None, viewed=False, due=False):
    unified = SimpleNamespace(partition=SimpleNamespace(directory=SimpleNamespace(offline=offline)))
    table = SimpleNamespace(
        get=lambda name: unified if led and name == ("t", 0) else None,
        has_view=lambda *_: viewed,
        due=SimpleNamespace(holds=lambda *_: due),
    )
    return SimpleNamespace(node_id=1, partitions=table)


def registered(broker_id, *listeners, fenced=False, directories=()):
    addresses = {name: ListenerAddress("h", 1) for name in listeners}
    return BrokerImage(broker_id, 1, bytes(16), addresses, is_fenced=fenced, directories=directories)


BROKERS = BrokersImage({1: registered(1, "L"), 2: registered(2, "L")})


def health(broker, state, brokers=BROKERS):
    return partition_health(broker, brokers, "L", "t", 0, state)


@pytest.mark.parametrize(
    ("broker", "leader", "expected"),
    [
        (broker(), 1, (1, [], ErrorCode.NONE, False)),
        (broker(led=False), 1, (-1, [1], ErrorCode.LEADER_NOT_AVAILABLE, True)),
        (broker(led=False, viewed=True), 1, (1, [], ErrorCode.NONE, False)),
        (broker(led=False, due=True), 1, (1, [], ErrorCode.NONE, False)),
        (broker(offline=OSError()), 1, (-1, [1], ErrorCode.LEADER_NOT_AVAILABLE, True)),
        (broker(led=False), 2, (2, [], ErrorCode.NONE, False)),
        (broker(led=False), -1, (-1, [], ErrorCode.LEADER_NOT_AVAILABLE, False)),
    ],
)
def test_a_leader_that_cannot_serve_is_none(broker, leader, expected):
    """Its log was not opened or its directory failed; leaders elsewhere are answered as the image has them."""
    assert health(broker, PartitionImage((1, 2), (1, 2), leader)) == expected


HERE, THERE = b"h" * 16, b"t" * 16


@pytest.mark.parametrize(
    ("leader", "second", "expected"),
    [
        (1, registered(2, "L", fenced=True), (1, [2], ErrorCode.NONE)),
        (1, registered(2, "M"), (1, [2], ErrorCode.NONE)),
        (1, registered(2, "L", directories=(HERE,)), (1, [2], ErrorCode.NONE)),
        (1, registered(2, "L", directories=(HERE, THERE)), (1, [], ErrorCode.NONE)),
        (1, None, (1, [2], ErrorCode.NONE)),
        (2, registered(2, "L", fenced=True), (2, [2], ErrorCode.NONE)),
        (2, registered(2, "M"), (-1, [2], ErrorCode.LISTENER_NOT_FOUND)),
        (2, None, (-1, [2], ErrorCode.LEADER_NOT_AVAILABLE)),
    ],
)
def test_replicas_that_clients_cannot_reach_are_offline(leader, second, expected):
    """Fenced, without the listener, in a directory that is gone, not registered. A fenced leader stands until another is chosen."""
    brokers = {1: BROKERS.brokers[1]} | ({} if second is None else {2: second})
    state = PartitionImage((1, 2), (1, 2), leader, directories=(THERE, THERE))
    assert health(broker(), state, BrokersImage(brokers)) == (*expected, False)
