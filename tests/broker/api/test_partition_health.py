"""The leader of a partition, as clients see it."""

from types import SimpleNamespace

import pytest

from stratalog.broker.api.partition_health import partition_health
from stratalog.metadata.image.topics_image import PartitionImage
from stratalog.wire.errors import ErrorCode


def broker(*, led=True, offline=None, viewed=False):
    unified = SimpleNamespace(partition=SimpleNamespace(directory=SimpleNamespace(offline=offline)))
    table = SimpleNamespace(get=lambda name: unified if led and name == ("t", 0) else None, has_view=lambda *_: viewed)
    return SimpleNamespace(node_id=1, partitions=table)


@pytest.mark.parametrize(
    ("broker", "leader", "expected"),
    [
        (broker(), 1, (1, [], ErrorCode.NONE)),
        (broker(led=False), 1, (-1, [1], ErrorCode.LEADER_NOT_AVAILABLE)),
        (broker(led=False, viewed=True), 1, (1, [], ErrorCode.NONE)),
        (broker(offline=OSError()), 1, (-1, [1], ErrorCode.LEADER_NOT_AVAILABLE)),
        (broker(led=False), 2, (2, [], ErrorCode.NONE)),
        (broker(led=False), -1, (-1, [], ErrorCode.LEADER_NOT_AVAILABLE)),
    ],
)
def test_a_leader_that_cannot_serve_is_none(broker, leader, expected):
    """Its log was not opened or its directory failed; leaders elsewhere are answered as the image has them."""
    assert partition_health(broker, "t", 0, PartitionImage((1, 2), (1, 2), leader)) == expected
