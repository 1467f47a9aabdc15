"""Figures of replicas."""

from types import SimpleNamespace

from stratalog.broker.replication.metrics import add_replica_figures
from stratalog.broker.runtime.clock import SystemClock
from stratalog.broker.runtime.metrics import Metrics


def leader(in_sync, replicas, minimum):
    state = SimpleNamespace(
        in_sync=in_sync, replicas=replicas, min_insync_replicas=minimum, enough_in_sync=len(in_sync) >= minimum
    )
    return SimpleNamespace(partition=SimpleNamespace(leader=SimpleNamespace(state=state), follower=None))


def follower(lag):
    return SimpleNamespace(partition=SimpleNamespace(leader=None, follower=SimpleNamespace(lag=lag)))


def test_partitions_are_counted_by_what_they_lack():
    """Those led here; of copies the one furthest behind."""
    metrics = Metrics()
    table = [
        leader((1, 2, 3), (1, 2, 3), 2),
        leader((1, 2), (1, 2, 3), 2),
        leader((1,), (1, 2), 2),
        follower(3),
        follower(9),
    ]
    asks = SimpleNamespace(expansions=4, shrinkings=5)
    shown = []
    throttle = SimpleNamespace(add_figure=lambda _metrics, kind, _monotonic: shown.append(kind))
    copies = SimpleNamespace(asking=asks, leader_throttle=throttle, follower_throttle=throttle)
    add_replica_figures(metrics, table, copies, SystemClock())
    assert shown == ["LeaderReplication", "FollowerReplication"]
    told = dict(line.rsplit(" ", 1) for line in metrics.render().decode().splitlines() if line[0] != "#")
    manager = "kafka_server_replicamanager_"
    assert {name.removeprefix(manager): float(value) for name, value in told.items() if name.startswith(manager)} == {
        "partitioncount": 5,
        "leadercount": 3,
        "underreplicatedpartitions": 2,
        "underminisrpartitioncount": 1,
        "atminisrpartitioncount": 1,
        "isrexpands_total": 4,
        "isrshrinks_total": 5,
    }
    assert float(told['kafka_server_replicafetchermanager_maxlag{clientId="Replica"}']) == 9
