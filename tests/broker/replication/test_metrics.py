"""Figures of replicas."""

from types import SimpleNamespace

from stratalog.broker.replication.metrics import add_replica_figures
from stratalog.broker.runtime.clock import SystemClock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.wire.topic import TopicPartition

ADDING = {"moving": SimpleNamespace(partitions={0: SimpleNamespace(adding_replicas=(3,))})}
IMAGE = SimpleNamespace(topics=SimpleNamespace(by_name=ADDING))


def leader(in_sync, replicas, minimum, topic="t"):
    state = SimpleNamespace(
        in_sync=in_sync, replicas=replicas, min_insync_replicas=minimum, enough_in_sync=len(in_sync) >= minimum
    )
    return hosted(topic, leader=SimpleNamespace(state=state), follower=None)


def follower(lag, offline=None):
    return hosted("t", leader=None, follower=SimpleNamespace(lag=lag), offline=offline)


def hosted(topic, leader, follower, offline=None):
    partition = SimpleNamespace(leader=leader, follower=follower, directory=SimpleNamespace(offline=offline))
    return SimpleNamespace(partition=partition, topic_partition=TopicPartition(topic, 0))


def test_partitions_are_counted_by_what_they_lack():
    """Those led here; of copies the one furthest behind."""
    metrics = Metrics()
    table = [
        leader((1, 2, 3), (1, 2, 3), 2),
        leader((1, 2), (1, 2, 3), 2),
        leader((1,), (1, 2), 2),
        follower(3),
        follower(9, offline=OSError(5, "broken")),
        leader((1, 2), (1, 2, 3), 2, topic="moving"),
        leader((1,), (1, 2, 3), 1, topic="moving"),
    ]
    asks = SimpleNamespace(expansions=4, shrinkings=5)
    shown = []
    throttle = SimpleNamespace(add_figure=lambda _metrics, kind, _monotonic: shown.append(kind))
    copies = SimpleNamespace(asking=asks, leader_throttle=throttle, follower_throttle=throttle)
    add_replica_figures(metrics, table, copies, SystemClock(), lambda: IMAGE)
    assert shown == ["LeaderReplication", "FollowerReplication"]
    told = dict(line.rsplit(" ", 1) for line in metrics.render().decode().splitlines() if line[0] != "#")
    manager = "kafka_server_replicamanager_"
    assert {name.removeprefix(manager): float(value) for name, value in told.items() if name.startswith(manager)} == {
        "partitioncount": 7,
        "leadercount": 5,
        "underreplicatedpartitions": 3,
        "underminisrpartitioncount": 1,
        "atminisrpartitioncount": 3,
        "reassigningpartitions": 2,
        "offlinereplicacount": 1,
        "isrexpands_total": 4,
        "isrshrinks_total": 5,
    }
    assert float(told['kafka_server_replicafetchermanager_maxlag{clientId="Replica"}']) == 9
