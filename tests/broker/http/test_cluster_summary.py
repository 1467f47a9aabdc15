"""The nodes of a cluster, as the page says them."""

from stratalog.broker.http.cluster_summary import cluster_summary
from stratalog.broker.quorum.leadership import LeaderAndEpoch
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.records.metadata import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)


def registered(node_id, *, is_fenced=False, rack=None):
    """A broker that serves clients on its own port."""
    return RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=bytes(16),
        broker_epoch=node_id,
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=9000 + node_id, security_protocol=0)],
        features=[],
        rack=rack,
        fenced=is_fenced,
        log_dirs=[],
    )


def test_each_node_has_its_roles_and_its_state():
    """A broker may be a controller, too; one of them is the active one."""
    image = ClusterImage().apply(
        [
            registered(1, rack="a"),
            registered(2, is_fenced=True),
            registered(4),
            BrokerRegistrationChangeRecord(broker_id=4, broker_epoch=4, in_controlled_shutdown=1),
            *(
                RegisterControllerRecord(
                    controller_id=one, incarnation_id=bytes(16), zk_migration_ready=False, end_points=[], features=[]
                )
                for one in (1, 3)
            ),
        ]
    )
    counts = {"partitions": 9, "without_leader": 0, "under_replicated": 2, "reassigning": 0}
    said = cluster_summary(image, "c", 1, LeaderAndEpoch(3, 7), counts)
    assert said["replicas"] == counts
    assert (said["cluster_id"], said["node"], said["controller"], said["controller_epoch"]) == ("c", 1, 3, 7)
    assert said["nodes"] == [
        {"node": 1, "roles": ["broker", "controller"], "state": "active", "address": "h:9001", "rack": "a"},
        {"node": 2, "roles": ["broker"], "state": "fenced", "address": "h:9002", "rack": None},
        {"node": 3, "roles": ["controller"], "state": "", "address": "", "rack": None},
        {"node": 4, "roles": ["broker"], "state": "stopping", "address": "h:9004", "rack": None},
    ]


def test_a_node_that_knows_of_no_controller_says_so():
    """An election is under way, or the others are out of reach."""
    assert cluster_summary(ClusterImage(), "c", 1, LeaderAndEpoch(-1, 7), None)["controller"] is None
