"""Directories and properties files of a cluster on one machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from stratalog.broker.local_cluster import directories
from stratalog.broker.local_cluster.directories import (
    child_environment,
    choose_ports,
    find_nodes,
    forget_unfinished,
    make_cluster,
)
from stratalog.broker.local_cluster.node_files import NodePorts, cluster_layout
from stratalog.broker.settings.config import load_config
from stratalog.hot.storage.checkpoint import read_meta_properties
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.formatting.node_format import BOOTSTRAP_SNAPSHOT
from stratalog.metadata.quorum.checkpoint import read_checkpoint
from stratalog.wire.errors import Invalid

PORTS = [NodePorts(clients=9092 + number, controller=19092 + number, http=8080 + number) for number in range(3)]


def layout(directory: Path):
    ids = [bytes([200 + number]) * 16 for number in range(3)]
    return cluster_layout(
        PORTS, str(directory), cluster_id="c", directory_ids=ids, bucket_url=f"file://{directory}/bucket"
    )


def test_every_node_is_formatted_as_a_voter_of_one_quorum(tmp_path):
    """Its file can be loaded, and its directory has the voters of all nodes and the id that they know."""
    planned = layout(tmp_path)
    make_cluster(planned, now_ms=5)
    assert find_nodes(str(tmp_path)) == {node.node_id: node.properties_path for node in planned.nodes}
    for number, node in enumerate(planned.nodes):
        config = load_config(path=node.properties_path)
        owner = read_meta_properties(RealFilesystem(), config.metadata_log_dir)
        assert (owner.cluster_id, owner.node_id, owner.directory_id) == ("c", number + 1, bytes([200 + number]) * 16)
        checkpoint = read_checkpoint(Path(config.metadata_log_dir, BOOTSTRAP_SNAPSHOT).read_bytes(), "x")
        voters = checkpoint.quorum.voters
        assert [(one.voter_id, one.endpoints[0].port) for one in voters] == [(1, 19092), (2, 19093), (3, 19094)]


def test_a_cluster_may_lie_in_a_directory_that_is_not_there_yet(tmp_path):
    """As each of its nodes may."""
    make_cluster(layout(tmp_path / "new" / "one"), now_ms=5)
    assert set(find_nodes(str(tmp_path / "new" / "one"))) == {1, 2, 3}


def test_a_cluster_is_not_made_twice(tmp_path):
    """Directories that are formatted are refused, and their files stay as they are."""
    make_cluster(layout(tmp_path), now_ms=5)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(Invalid, match="already formatted"):
        make_cluster(layout(tmp_path), now_ms=6)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("written", [0, 1])
def test_a_cluster_that_was_not_made_to_its_end_is_made_anew(tmp_path, monkeypatch, written):
    """Ctrl-C came between. One that was made, or whose node has run, is left alone."""
    real, count = Path.write_text, 0

    def write(path, text):
        nonlocal count
        if count == written:
            raise KeyboardInterrupt
        count += 1
        return real(path, text)

    with monkeypatch.context() as interrupted:
        interrupted.setattr(Path, "write_text", write)
        with pytest.raises(KeyboardInterrupt):
            make_cluster(layout(tmp_path), now_ms=5)
    segment = tmp_path / "node-3" / "__cluster_metadata-0" / f"{0:020d}.log"
    segment.touch()
    with pytest.raises(Invalid, match="node-3 of it has run"):
        forget_unfinished(str(tmp_path))
    segment.unlink()
    (tmp_path / "mine").touch()
    forget_unfinished(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    make_cluster(layout(tmp_path), now_ms=6)
    forget_unfinished(str(tmp_path))
    assert list(find_nodes(str(tmp_path))) == [1, 2, 3]
    assert not list(tmp_path.glob(".*"))


def test_only_properties_files_of_nodes_are_found(tmp_path):
    """In the order of their ids."""
    for name in ("node-2.properties", "node-10.properties", "node-x.properties", "node-1.properties.old", "node-3"):
        (tmp_path / name).touch()
    assert list(find_nodes(str(tmp_path))) == [2, 10]


def test_ports_are_those_wanted_where_they_are_free():
    """A taken one, and 0, stand for any; all differ, and can be listened on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (free,) = choose_ports([0])
        found = choose_ports([free, port, free, 0, 0])
        assert found[0] == free
        assert port not in found
        assert len(set(found)) == 5
        for each in found:
            socket.create_server(("127.0.0.1", each)).close()


def test_any_port_is_none_that_connections_get():
    """Linux gives those from 32768 on to connections: a port there may be taken when a node is started again."""
    found = choose_ports([0] * 12)
    assert len(set(found)) == 12
    assert max(found) < 32_768


def test_a_range_without_a_free_port_leaves_any_other(monkeypatch):
    """The kernel's choice."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(directories, "_PORTS", range(port, port + 1))
        monkeypatch.setattr(directories, "_PORTS_TRIED", 1)
        (found,) = choose_ports([0])
    assert found not in (0, port)


def test_variables_that_would_make_nodes_alike_are_hidden_from_them():
    """Settings of a node's file and its identity, under both names of our own; all others stay."""
    environment = {
        "STRATALOG_LISTENERS": "PLAINTEXT://:1",
        "STRATALOG_BUCKET_URL": "memory:",
        "STRATALOG_STRATALOG_BUCKET_URL": "memory:",
        "STRATALOG_METADATA_LOG_DIR": "/x",
        "STRATALOG_NUM_PARTITIONS": "3",
        "STRATALOG_CONFIG": "/x",
        "PATH": os.defpath,
    }
    kept = child_environment(environment, ["listeners", "stratalog.bucket.url"])
    assert set(kept) == {"STRATALOG_NUM_PARTITIONS", "STRATALOG_CONFIG", "PATH"}
