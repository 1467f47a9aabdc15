"""``stratalog format``: options, results, refusals, and a broker that begins with what was formatted."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from stratalog.cli.main import cli
from stratalog.metadata.image.replay import MetadataReplay
from stratalog.wire.topic import uuid_parse

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
STOCK = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://:9093
controller.listener.names=CONTROLLER
log.dirs={data}/d1,{data}/d2
metadata.log.dir={data}/meta
"""
ROLES = {
    "controller": "listeners=CONTROLLER://:9093\n",
    "broker": "listeners=PLAINTEXT://:9092\n",
    "broker,controller": "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\n",
}


@pytest.fixture
def config(tmp_path):
    """The path of a configuration file of three directories."""
    path = tmp_path / "server.properties"
    path.write_text(STOCK.format(data=tmp_path))
    return str(path)


def run(*arguments):
    """One command; exit code, stdout, stderr."""
    result = CliRunner().invoke(cli, ["format", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_every_directory_is_a_line_of_the_result(config, tmp_path):
    """The levels and the release stand on stderr."""
    code, out, err = run("-c", config, "-t", CLUSTER, "--standalone", "--json", "--feature", "group.version=0")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [(row["directory"], row["kind"]) for row in rows] == [
        (f"{tmp_path}/d1", "data directory"),
        (f"{tmp_path}/d2", "data directory"),
        (f"{tmp_path}/meta", "dynamic metadata voter directory"),
    ]
    assert {(row["cluster_id"], row["node_id"]) for row in rows} == {(CLUSTER, 1)}
    assert len({uuid_parse(row["directory_id"]) for row in rows}) == 3
    levels = "eligible.leader.replicas.version=1, kraft.version=1, metadata.version=30, transaction.version=2."
    assert f"metadata.version 4.3-IV0: {levels}" in err


def test_a_second_time_is_refused_or_skipped(config, tmp_path):
    """Exit code 2 with the option to use; with it, the directories are named that are left alone."""
    assert run("-c", config, "-t", CLUSTER, "-s")[0] == 0
    code, out, err = run("-c", config, "-t", CLUSTER, "-s")
    assert (code, out) == (2, "")
    assert f"Log directory {tmp_path}/d1 is already formatted. Use --ignore-formatted" in err
    code, out, err = run("-c", config, "-t", CLUSTER, "-s", "-g")
    assert (code, out) == (0, "")
    assert "All of the log directories are already formatted." in err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "stratalog format --random-uuid prints a new one"),
        (["-t", CLUSTER], "Because controller.quorum.voters is not set on this controller"),
        (["-t", CLUSTER, "-s", "-N"], "give one of --standalone"),
        (["-t", CLUSTER, "-s", "-f", "share.version=1"], "this release runs share.version up to level 0"),
        (["-t", CLUSTER, "-s", "--set", "controller.quorum.voters=1@localhost:9093"], "You cannot specify"),
        (["-t", CLUSTER, "-s", "--set", "node.id=x"], "Not a number of type INT"),
        (["-t", CLUSTER, "-I", "1@localhost:9093:x"], "the directory id of"),
    ],
)
def test_a_wrong_option_or_setting_ends_with_2_and_nothing_is_written(config, tmp_path, arguments, why):
    """The sentence says which one."""
    code, out, err = run("-c", config, *arguments)
    assert (code, out) == (2, "")
    assert why in err
    assert [path.name for path in tmp_path.iterdir()] == ["server.properties"]


def test_an_id_is_new_each_time_and_no_option():
    """For --cluster-id and for directories of --initial-controllers."""
    texts = {run("--random-uuid")[1].strip() for _ in range(3)}
    assert len(texts) == 3
    assert all(len(uuid_parse(text)) == 16 and not text.startswith("-") for text in texts)
    assert len(json.loads(run("--random-uuid", "--json")[1])["id"]) == 22


@pytest.mark.parametrize("roles", ROLES)
def test_nodes_of_a_cluster_of_several_are_formatted_before_they_are_served(tmp_path, roles):
    """The files of each role are those of Kafka; serve makes none of them up."""
    path = tmp_path / "server.properties"
    path.write_text(
        f"process.roles={roles}\nnode.id=7\ncontroller.quorum.bootstrap.servers=a:9093,b:9093,c:9093\n"
        f"controller.listener.names=CONTROLLER\n{ROLES[roles]}log.dirs={tmp_path}/data\n"
    )
    result = CliRunner().invoke(cli, ["serve", "--config", str(path)])
    assert result.exit_code == 2
    assert "data is not formatted, and the settings name other nodes: run `stratalog format`" in result.stderr
    voters = "1@a:9093:JEXY6aqzQY-32P5TStzaFg,7@b:9093:MvDxzVmcRsaTz33bUuRU6A"
    code, out, _ = run("-c", path, "-t", CLUSTER, "--initial-controllers", voters, "--json")
    assert code == 0
    assert json.loads(out)["directory_id"] == "MvDxzVmcRsaTz33bUuRU6A"


@pytest.mark.story
def test_a_broker_begins_with_the_cluster_that_was_formatted(config, start_command, tmp_path):
    """Its id, its levels, and the directory of the voter; a second start finds the same."""
    scram = "SCRAM-SHA-256=[name=alice,password=secret]"
    assert run("-c", config, "-t", CLUSTER, "-s", "-f", "group.version=0", "-S", scram)[0] == 0
    for _ in range(2):
        process = start_command("serve", "--config", config)
        assert process.stdout.readline().startswith("ready "), process.stderr.read()
        process.terminate()
        process.communicate(timeout=30)
        assert process.returncode == 0
    meta = tmp_path / "meta" / "__cluster_metadata-0"
    assert json.loads((meta / "quorum-state").read_text())["data_version"] == 1
    replay = MetadataReplay()
    replay.replay((meta / "00000000000000000000.log").read_bytes())
    assert replay.image().features == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "transaction.version": 2,
    }
    assert list(replay.image().scram.by_user) == ["alice"]


@pytest.mark.parametrize(("release", "is_told"), [("3.9", True), ("4.3", False)])
def test_an_older_release_is_said_to_be_none_that_serve_begins_with(config, release, is_told):
    """Apache Kafka starts on such directories; serve refuses to begin a cluster there."""
    code, _, errors = run("-c", config, "-t", CLUSTER, "-s", "-r", release)
    assert code == 0
    assert ("begins new clusters with 4.3-IV0 only" in errors) is is_told
