"""``stratalog dev --nodes 3``: what is made, what is run, what is refused."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from stratalog.broker.settings.config import load_config
from stratalog.cli import dev_cluster
from stratalog.cli.dev_cluster import banner
from stratalog.cli.main import cli


@pytest.fixture
def dev(monkeypatch):
    """Runs ``stratalog dev`` up to the start of the nodes; the result has the commands and the environment of nodes."""
    runs = []

    def run_nodes(commands, *, environment, **options):
        configs = {node_id: load_config(path=command[5]) for node_id, command in commands.items()}
        runs.append((commands, environment, configs))
        return True

    monkeypatch.setattr(dev_cluster, "run_nodes", run_nodes)

    def run(*arguments: object, code: int = 0, **environment: str):
        found = CliRunner().invoke(cli, ["dev", *map(str, arguments)], env=environment)
        assert found.exit_code == code, found.output
        return runs[-1] if code == 0 else found.stderr

    return run


def test_every_node_is_a_process_with_a_file_of_its_own(dev, tmp_path):
    """Ports follow on those given; settings and the log level go to all, variables of one node to none."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    commands, environment, configs = dev(
        "--nodes", 3, "--data", tmp_path / "c", "--listen", f"127.0.0.1:{port}", "--http", "127.0.0.1:0",
        "--set", "num.partitions=4", "--log-level", "debug",
        STRATALOG_LISTENERS="PLAINTEXT://:1", STRATALOG_NUM_PARTITIONS="3",
    )  # fmt: skip
    assert [command[3:5] for command in commands.values()] == [["serve", "--config"]] * 3
    assert [command[6:] for command in commands.values()] == [["--set", "num.partitions=4", "--log-level", "debug"]] * 3
    assert "STRATALOG_LISTENERS" not in environment
    assert environment["STRATALOG_NUM_PARTITIONS"] == "3"
    assert [one.node_id for one in configs.values()] == [1, 2, 3]
    assert configs[1].listeners[0].port == port
    assert configs[1].roles.quorum.session_timeout_ms == 3000
    assert {one.bucket_url for one in configs.values()} == {f"file://{tmp_path}/c/bucket"}
    assert len({one.http_port for one in configs.values()} - {0}) == 3
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == sorted(
        name for number in (1, 2, 3) for name in (f"node-{number}", f"node-{number}.properties")
    )


def test_a_cluster_that_is_kept_goes_on_as_it_was(dev, tmp_path):
    """Its files are taken as they are, also edited; without --nodes it is refused with the number to give."""
    dev("--nodes", 2, "--data", tmp_path, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
    path = tmp_path / "node-2.properties"
    path.write_text(path.read_text() + "num.partitions=9\n")
    before = {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
    _, _, configs = dev("--nodes", 2, "--data", tmp_path)
    assert [one.integer("num.partitions") for one in configs.values()] == [1, 9]
    assert {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()} == before
    for nodes in ((), ("--nodes", 3)):
        assert "holds a cluster of 2 nodes: give --nodes 2" in dev(*nodes, "--data", tmp_path, code=2)
    for option, value in (("--listen", "127.0.0.1:1"), ("--http", "127.0.0.1:1"), ("--bucket", "memory:")):
        told = dev("--nodes", 2, "--data", tmp_path, option, value, code=2)
        assert f"{option} is for a new cluster" in told
        assert "in node-1.properties, node-2.properties" in told


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--nodes", "10"], "10 is not in the range 1<=x<=9"),
        (["--nodes", "2", "--listen", "0.0.0.0:9092"], "listen on 127.0.0.1 only"),
        (["--nodes", "2", "--http", "127.0.0.1:65535"], "2 nodes need ports up to 65536"),
        (["--nodes", "2", "--set", "num.partitions"], "is not NAME=VALUE"),
        (["--nodes", "2", "--set", "num.partitons=2"], "did you mean num.partitions"),
    ],
)
def test_a_wrong_option_ends_with_2_and_nothing_is_left(dev, tmp_path, monkeypatch, arguments, why):
    """Neither a folder nor a process."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert why in dev(*arguments, code=2)
    assert list(tmp_path.iterdir()) == []


def test_the_data_of_a_single_broker_is_no_cluster(dev, tmp_path):
    """Its directory is refused, and left alone."""
    (tmp_path / "meta.properties").write_text("version=1\n")
    assert "holds the data of a single broker" in dev("--nodes", 3, "--data", tmp_path, code=2)
    assert [path.name for path in tmp_path.iterdir()] == ["meta.properties"]


def test_the_banner_says_what_to_type_and_what_happens_to_the_data():
    """Addresses only where they are not the defaults; a page for each node."""
    nodes = [{"kafka": f"127.0.0.1:909{number}", "http": f"127.0.0.1:808{number}"} for number in (2, 3)]
    text = banner(nodes, "/c", is_kept=True)
    assert "its data is in /c and it is kept" in text
    assert "stratalog cluster\n" in text
    assert "http://127.0.0.1:8082/  http://127.0.0.1:8083/\n" in text
    assert "stratalog cluster -b 127.0.0.1:9093\n" in banner(nodes[1:], "/c", is_kept=False)


@pytest.mark.cluster
def test_three_nodes_serve_from_one_command(tmp_path):
    """Ready lines, a healthy cluster, a node that is killed and said, one SIGINT that ends the others in order."""
    command = [sys.executable, "-m", "stratalog.cli.main", "dev", "--nodes", "3", "--data", str(tmp_path / "c")]
    command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with (tmp_path / "err").open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        lines = [process.stdout.readline() for _ in range(4)]
        assert lines[3].startswith("ready nodes=3 "), (tmp_path / "err").read_text()
        bootstrap = lines[3].split()[2].removeprefix("kafka=")
        healthy = CliRunner().invoke(cli, ["cluster", "-b", bootstrap])
        assert healthy.exit_code == 0, healthy.output
        assert healthy.stdout.count(" active ") == 3
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0, (tmp_path / "err").read_text()
        assert "Node 1 has stopped." in (tmp_path / "err").read_text()
        assert all(Path(tmp_path, "c", f"node-{number}", ".kafka_cleanshutdown").exists() for number in (1, 2, 3))
    finally:
        process.kill()
        process.communicate()
