"""The parts that the HTTP side of a broker gets."""

from types import SimpleNamespace

from stratalog.broker import http_assembly
from stratalog.broker.quorum.leadership import LeaderAndEpoch
from stratalog.metadata.image.image import ClusterImage


def broker(*, has_peers):
    """A broker with the parts that the watch of the tier takes."""
    return SimpleNamespace(
        config=SimpleNamespace(roles=SimpleNamespace(has_peers=has_peers)),
        clock=object(),
        metrics=object(),
        tiering=object(),
        partitions=(),
        mount=(),
        image=ClusterImage(),
        cluster_id="c",
        node_id=3,
        quorum=SimpleNamespace(leader=LeaderAndEpoch(2, 7)),
    )


def test_only_a_broker_of_several_has_a_cluster_to_show():
    """Its controller is the one that it knows at the moment of the question."""
    assert http_assembly.new_tier_watch(broker(has_peers=False))._services.cluster() is None
    one = broker(has_peers=True)
    services = http_assembly.new_tier_watch(one)._services
    assert (services.cluster()["node"], services.cluster()["controller"]) == (3, 2)
    one.quorum.leader = LeaderAndEpoch(-1, 8)
    assert services.cluster()["controller"] is None
