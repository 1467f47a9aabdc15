"""``stratalog cluster``: nodes, leaders, features, and whether anything is wrong."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from stratalog.cli.main import cli
from stratalog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from stratalog.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from stratalog.wire.messages.describe_quorum import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from stratalog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

HEALTHY = """\
cluster c  controller 1  epoch 4
NODE  ROLES              STATE   RACK  ADDRESS      LEADS  QUORUM    LAG
   1  broker,controller  active  r1    host-1:9092      1  leader      0
   2  broker,controller  active  r2    host-2:9092      1  voter       2
   3  broker             active  r3    host-3:9092      1  observer    5
   4  controller         active  -     [::1]:9093       0  voter       0
partitions without a leader: 0  under-replicated: 0  reassigning: 0
features: group.version 1, metadata.version 30 (4.3-IV0)
"""


class Told:
    """The answers of a cluster of four nodes; a test changes them before it asks."""

    def __init__(self, scripted) -> None:
        self.scripted = scripted
        self.fenced = set()
        self.fetched_ms = {1: 100_000, 2: 99_600, 3: 99_500, 4: 99_900}
        self.leaders = [1, 2, 3]
        self.cluster_version = 2
        self.replicas = {}
        self.quorum_code = 0
        self.former = []
        """Observers that fetched the metadata log before, and are remembered."""
        self.lists_moves = False
        """Whether a broker serves the list of moves, and finds no controller to ask."""

    def __call__(self, *arguments: str):
        """Exit code, stdout and stderr of ``stratalog cluster``."""
        ranges = {3: (0, 13), 18: (0, 4), 55: (0, 2), 60: (0, self.cluster_version)}
        if self.lists_moves:
            ranges[46] = (0, 0)
        self.scripted.answers |= {3: self._metadata(), 18: _versions(ranges), 55: self._quorum(), 60: self._brokers()}
        result = CliRunner().invoke(cli, ["cluster", "-b", self.scripted.address, "--timeout", "0.5", *arguments])
        return result.exit_code, result.stdout, result.stderr

    def _metadata(self) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(
                error_code=0 if leader >= 0 else 5,
                partition_index=number,
                leader_id=leader,
                leader_epoch=0,
                replica_nodes=self.replicas.get(number, ([1], [1]))[0],
                isr_nodes=self.replicas.get(number, ([1], [1]))[1],
                offline_replicas=[],
            )
            for number, leader in enumerate(self.leaders)
        ]
        topic = MetadataResponseTopic(name="orders", topic_id=b"t" * 16, is_internal=False, partitions=partitions)
        brokers = [MetadataResponseBroker(node_id=one, host=f"host-{one}", port=9092, rack=None) for one in (1, 2, 3)]
        return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=[topic])

    def _quorum(self) -> DescribeQuorumResponse:
        ends = {1: 50, 2: 48, 3: 45, 4: 50}
        rows = {
            node: ReplicaState(
                replica_id=node, log_end_offset=ends[node], last_fetch_timestamp=at, last_caught_up_timestamp=at
            )
            for node, at in self.fetched_ms.items()
        }
        found = PartitionData(
            partition_index=0,
            error_code=self.quorum_code,
            leader_id=1,
            leader_epoch=4,
            high_watermark=48,
            current_voters=[rows[1], rows[2], rows[4]],
            observers=[rows[3], *self.former],
        )
        nodes = [Node(node_id=4, listeners=[Listener(name="CONTROLLER", host="::1", port=9093)])]
        return DescribeQuorumResponse(
            topics=[TopicData(topic_name="__cluster_metadata", partitions=[found])], nodes=nodes
        )

    def _brokers(self) -> DescribeClusterResponse:
        brokers = [
            DescribeClusterBroker(
                broker_id=one, host=f"host-{one}", port=9092, rack=f"r{one}", is_fenced=one in self.fenced
            )
            for one in (1, 2, 3)
        ]
        return DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=brokers)


def _versions(ranges) -> ApiVersionsResponse:
    levels = {"metadata.version": (7, 30, 30), "group.version": (0, 1, 1)}
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in sorted(ranges.items())
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high) for name, (low, high, _) in levels.items()
        ],
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=low)
            for name, (low, _, level) in levels.items()
        ],
    )


@pytest.fixture
def told(scripted):
    """A healthy cluster of three brokers, two of them controllers, and a third controller."""
    return Told(scripted)


def test_a_single_broker_is_a_healthy_cluster(stratalog) -> None:
    """Exit code 0, and nothing on stderr."""
    found = stratalog("cluster")
    assert found.err == ""
    assert found.out.splitlines()[2].split()[:3] == ["1", "broker,controller", "active"]
    (row,) = stratalog("cluster", "--json").rows
    assert (row["healthy"], row["faults"], row["nodes"][0]["quorum"]) == (True, [], "leader")
    assert row["features"]["metadata.version"] == {"lowest": 7, "highest": 30, "level": 30}


def test_every_node_has_its_roles_state_and_place_in_the_quorum(told) -> None:
    """Brokers by registration, controllers by vote; addresses of clients, or of the controller listener."""
    assert told() == (0, HEALTHY, "")


def test_a_fenced_broker_is_named_and_the_cluster_is_not_healthy(told) -> None:
    """Exit code 4 with a sentence; the rest is shown all the same."""
    told.fenced = {3}
    told.leaders = [1, 2, -1]
    code, out, err = told()
    assert code == 4
    assert [line.split()[2] for line in out.splitlines()[2:6]] == ["active", "active", "fenced", "active"]
    assert err.splitlines() == [
        "Broker 3 is fenced: it is away, starting, or cannot reach the active controller. Start it, and read its log.",
        "1 partition has no leader, because no broker that has its records is active: orders-2.",
    ]


def test_a_controller_that_does_not_fetch_is_silent(told) -> None:
    """Ten seconds by the clock of the leader are twenty of its fetches."""
    told.fetched_ms[4] = 90_001
    assert told()[0] == 0
    told.fetched_ms[4] = 90_000
    code, out, err = told()
    assert (code, out.splitlines()[5].split()[2]) == (4, "silent")
    assert err == (
        "Node 4 last fetched the metadata log 10 s ago: it is away, or cannot reach the active controller 1.\n"
    )


def test_a_controller_that_the_active_one_never_heard_is_silent(told) -> None:
    """It was down before the election. A leader of before KIP-836 tells no times: then nothing is known."""
    told.fetched_ms[4] = -1
    code, out, err = told()
    assert (code, out.splitlines()[5].split()[2]) == (4, "silent")
    assert err.startswith("Node 4 has not fetched the metadata log since the active controller was elected: it is away")
    told.fetched_ms = dict.fromkeys(told.fetched_ms, -1)
    assert told()[0] == 0


@pytest.mark.parametrize(("count", "more"), [(20, "orders-19."), (21, "orders-19 and 1 more.")])
def test_partitions_without_a_leader_are_named_up_to_a_bound(told, count, more) -> None:
    """All are counted, in words and as JSON."""
    told.leaders = [-1] * count
    code, out, err = told("--json")
    row = json.loads(out)
    assert (code, row["partitions_without_leader"], len(row["without_leader"]), row["healthy"]) == (4, count, 20, False)
    assert err.startswith(f"{count} partitions have no leader")
    assert err.rstrip().endswith(more)
    assert row["faults"] == err.splitlines()


def test_without_an_active_controller_the_brokers_are_still_told(told) -> None:
    """The quorum cannot be described, and that is the fault."""
    told.quorum_code = 41
    code, out, err = told()
    assert code == 4
    assert err == (
        "No controller is active: a majority of the voters must be up and reach each other. Brokers and leaders are shown as they "
        "were before, and some may be away by now.\n"
    )
    assert out.startswith("cluster c  controller -1  epoch -1\n")
    assert [line.split()[1:3] + line.split()[5:] for line in out.splitlines()[2:5]] == [
        ["broker", "active", "1", "-", "-"]
    ] * 3


def test_without_an_active_controller_no_broker_is_asked_for_moves(told) -> None:
    """It would pass the question on, and wait. The command ended with that, and showed nothing."""
    told.quorum_code = 41
    told.lists_moves = True
    code, out, err = told()
    assert (code, err.count("\n")) == (4, 1)
    assert "under-replicated: 0  reassigning: not told\n" in out
    assert json.loads(told("--json")[1])["reassigning_partitions"] is None


def test_an_observer_that_fetches_no_more_is_no_fault(told) -> None:
    """The leader remembers it for minutes: a broker that was unregistered, and one whose disk was replaced, with its old directory."""
    told.former = [
        ReplicaState(replica_id=one, log_end_offset=9, last_fetch_timestamp=1000, last_caught_up_timestamp=1000)
        for one in (3, 9)
    ]
    code, out, err = told()
    assert (code, err) == (0, "")
    rows = {line.split()[0]: line.split()[1:3] for line in out.splitlines()[2:]}
    assert (rows["3"], rows["9"]) == (["broker", "active"], ["-", "silent"])


def test_a_refusal_to_describe_the_quorum_is_an_error(told) -> None:
    """Exit code 1: the state of the cluster is not known."""
    told.quorum_code = 31
    assert told()[0::2] == (
        1,
        "Error: CLUSTER_AUTHORIZATION_FAILED: __cluster_metadata: cluster authorization failed\n",
    )


def test_an_older_broker_tells_no_fenced_ones_and_that_is_said(told) -> None:
    """Healthy means less then."""
    told.cluster_version = 1
    told.fenced = {3}
    code, _, err = told()
    assert code == 0
    assert "does not tell which brokers are fenced" in err


def test_replicas_that_are_not_in_sync_are_named_with_the_reason(told) -> None:
    """On a fenced broker, and on one that does not say how far it is; as JSON row by row."""
    told.fenced = {3}
    told.replicas = {0: ([1, 3], [1]), 2: ([3, 1], [3])}
    told.leaders = [1, 2, 3]
    code, out, err = told("--json")
    row = json.loads(out)
    assert (code, row["under_replicated_partitions"], row["reassigning_partitions"]) == (4, 2, 0)
    assert row["under_replicated"] == ["orders-0", "orders-2"]
    assert row["out_of_sync"] == [
        {"partition": "orders-0", "broker": 3, "why": "fenced", "records_behind": None},
        {"partition": "orders-2", "broker": 1, "why": "no answer", "records_behind": None},
    ]
    assert "1 replica on broker 3 is not in sync: the broker is fenced. Partitions: orders-0." in err
    assert "under-replicated: 2 " in told()[1]
