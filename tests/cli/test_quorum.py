"""``stratalog quorum``, against a running broker and against one that answers as a test wants."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from stratalog.cli.main import cli
from stratalog.wire.messages.add_raft_voter import AddRaftVoterResponse
from stratalog.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from stratalog.wire.messages.describe_quorum import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from stratalog.wire.messages.remove_raft_voter import RemoveRaftVoterResponse
from stratalog.wire.topic import uuid_parse

DIRECTORY = "MvDxzVmcRsaTz33bUuRU6A"
CLUSTER = "4L6g3nShT-eMCtK--X86sw"


def run(*arguments: object):
    """Exit code, stdout and stderr of a command line in this process."""
    result = CliRunner().invoke(cli, ["quorum", *map(str, arguments)], env={"STRATALOG_BOOTSTRAP": None})
    return result.exit_code, result.stdout, result.stderr


def replica(node_id: int, end: int, at_ms: int) -> ReplicaState:
    return ReplicaState(
        replica_id=node_id,
        replica_directory_id=uuid_parse(DIRECTORY),
        log_end_offset=end,
        last_fetch_timestamp=at_ms,
        last_caught_up_timestamp=at_ms,
    )


@pytest.fixture
def three(scripted):
    """A node that is broker and controller, and tells of a quorum of two voters and an observer."""
    partition = PartitionData(
        partition_index=0,
        leader_id=1,
        leader_epoch=4,
        high_watermark=97,
        current_voters=[replica(1, 100, 200_000), replica(2, 97, 199_880)],
        observers=[replica(9, 20, 20_000)],
    )
    nodes = [Node(node_id=2, listeners=[Listener(name="CONTROLLER", host="::1", port=9093)])]
    scripted.ranges = {55: (0, 2), 60: (0, 2), 80: (0, 1), 81: (0, 0)}
    scripted.answers[55] = DescribeQuorumResponse(
        topics=[TopicData(topic_name="__cluster_metadata", partitions=[partition])], nodes=nodes
    )
    me = DescribeClusterBroker(broker_id=1, host="127.0.0.1", port=scripted.port)
    scripted.answers[60] = DescribeClusterResponse(cluster_id=CLUSTER, controller_id=1, brokers=[me])
    scripted.answers[80] = AddRaftVoterResponse(error_message=None)
    scripted.answers[81] = RemoveRaftVoterResponse(error_message=None)
    return scripted


def test_a_single_node_is_its_own_quorum(stratalog) -> None:
    """Leader and only voter, without lag; the status first, then the table."""
    lines = stratalog("quorum", "describe").out.splitlines()
    assert lines[0].startswith("cluster ")
    assert lines[1:3] == ["voters 1", "observers none"]
    assert lines[4].split()[:3] == ["1", "leader", lines[0].split("high watermark ")[1].split()[0]]
    (row,) = stratalog("quorum", "describe", "--replication", "--json").rows
    assert (row["node"], row["role"], row["lag"]) == (1, "leader", 0)
    assert "serves nothing of RemoveRaftVoter" in (
        stratalog("quorum", "remove-controller", "-i", "1", "-d", DIRECTORY, code=1).err
    )


@pytest.mark.parametrize("option", ["-b", "--bootstrap-controller"])
def test_voters_and_observers_have_a_row_each(three, option) -> None:
    """Lag in offsets, times as spans before the leader's clock, addresses with IPv6 in brackets."""
    code, out, _ = run("describe", option, three.address)
    assert code == 0
    assert out.splitlines()[:3] == [
        f"cluster {CLUSTER}  leader 1  epoch 4  high watermark 97  lag at most 3, 120 ms",
        "voters 1, 2",
        "observers 9",
    ]
    assert [line.split() for line in out.splitlines()[4:]] == [
        ["1", "leader", "100", "0", "0", "ms", "0", "ms", DIRECTORY],
        ["2", "follower", "97", "3", "120", "ms", "120", "ms", DIRECTORY, "CONTROLLER://[::1]:9093"],
        ["9", "observer", "20", "80", "180", "s", "180", "s", DIRECTORY],
    ]


def test_status_and_replication_show_one_part_each(three) -> None:
    """As JSON the status has the rows of all nodes, and the replication is a row a line."""
    assert len(run("describe", "-b", three.address, "--status")[1].splitlines()) == 3
    assert run("describe", "-b", three.address, "--replication")[1].startswith("NODE  ROLE")
    rows = [
        json.loads(line) for line in run("describe", "-b", three.address, "--replication", "--json")[1].splitlines()
    ]
    assert [(row["node"], row["role"], row["lag"]) for row in rows] == [
        (1, "leader", 0), (2, "follower", 3), (9, "observer", 80),
    ]  # fmt: skip
    status = json.loads(run("describe", "-b", three.address, "--status", "--json")[1])
    assert (status["voters"], status["observers"]) == (rows[:2], rows[2:])
    assert status == json.loads(run("describe", "-b", three.address, "--json")[1])
    assert run("describe", "-b", three.address, "--status", "--replication")[0] == 2


@pytest.fixture
def controller(tmp_path):
    """The properties file of a formatted controller that is no voter yet."""
    path = tmp_path / "server.properties"
    path.write_text(
        "process.roles=controller\nnode.id=4\ncontroller.quorum.bootstrap.servers=a:9093,b:9093\n"
        "controller.listener.names=CONTROLLER,INNER\nlisteners=CONTROLLER://:9093,INNER://10.0.0.4:9094\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,INNER:PLAINTEXT\n"
        f"advertised.listeners=CONTROLLER://d.example:9093\nlog.dirs={tmp_path}/data\n"
    )
    arguments = ["format", "-c", str(path), "-t", CLUSTER, "--no-initial-controllers", "--json"]
    row = json.loads(CliRunner().invoke(cli, arguments).stdout)
    return path, row["directory_id"]


def test_a_controller_is_added_under_the_ids_of_its_directory(three, controller) -> None:
    """Id and listeners from its settings, the directory id from meta.properties; a dry run sends nothing."""
    path, directory_id = controller
    told = f"controller 4 with the directory id {directory_id} at CONTROLLER://d.example:9093, INNER://10.0.0.4:9094"
    assert run("add-controller", "-c", path, "-b", three.address, "--dry-run") == (0, "", f"Would add {told}.\n")
    assert three.requests == []
    assert run("add-controller", "-c", path, "-b", three.address) == (0, "", f"Added {told}.\n")
    asked = three.requests[-1][0]
    assert (asked.cluster_id, asked.voter_id, asked.voter_directory_id) == (CLUSTER, 4, uuid_parse(directory_id))
    assert [(one.name, one.host, one.port) for one in asked.listeners] == [
        ("CONTROLLER", "d.example", 9093),
        ("INNER", "10.0.0.4", 9094),
    ]


def test_a_controller_asks_those_that_its_settings_name(three, controller) -> None:
    """No broker need run on its machine, or listen at 9092. An option counts more."""
    path, directory_id = controller
    path.write_text(path.read_text().replace("a:9093,b:9093", f"127.0.0.1:9,{three.address}"))
    told = f"controller 4 with the directory id {directory_id} at CONTROLLER://d.example:9093, INNER://10.0.0.4:9094"
    assert run("add-controller", "-c", path) == (0, "", f"Added {told}.\n")
    assert three.requests[-1][0].voter_id == 4
    count = len(three.requests)
    assert run("add-controller", "-c", path, "-b", "127.0.0.1:9")[0] == 4
    assert len(three.requests) == count


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (["--set", "log.dirs={}/empty"], "has no meta.properties: run stratalog format --no-initial-controllers first"),
        (["--set", "node.id=5"], "belongs to node 4, and node.id is 5"),
        (["--set", "process.roles=broker", "--set", "listeners=PLAINTEXT://:9092", "--set",
          "advertised.listeners=PLAINTEXT://d:9092", "--set",
          "listener.security.protocol.map=CONTROLLER:PLAINTEXT,INNER:PLAINTEXT,PLAINTEXT:PLAINTEXT"],
         "node 4 is no controller"),
    ],
)  # fmt: skip
def test_a_node_that_is_no_controller_of_this_machine_is_not_added(three, controller, tmp_path, settings, why) -> None:
    """Exit code 2 with the reason; nothing is sent."""
    code, _, err = run(
        "add-controller", "-c", controller[0], "-b", three.address, *(s.format(tmp_path) for s in settings)
    )
    assert code == 2
    assert why in err
    assert three.requests == []


def test_a_controller_is_removed_by_id_and_directory(three) -> None:
    """As describe shows them; an id that cannot be read is a wrong option, an unknown voter is not found."""
    arguments = ["remove-controller", "-b", three.address, "-i", "2", "-d", DIRECTORY]
    assert run(*arguments, "--dry-run")[2] == f"Would remove controller 2 with the directory id {DIRECTORY}.\n"
    assert three.requests == []
    assert run(*arguments) == (0, "", f"Removed controller 2 with the directory id {DIRECTORY}.\n")
    assert (three.requests[-1][0].voter_id, three.requests[-1][0].voter_directory_id) == (2, uuid_parse(DIRECTORY))
    three.answers[81] = RemoveRaftVoterResponse(error_code=127, error_message="no such voter")
    assert run(*arguments)[0::2] == (3, "Error: VOTER_NOT_FOUND: no such voter\n")
    assert run("remove-controller", "-b", three.address, "-i", "2", "-d", "x")[0] == 2
