"""A cluster for tests: processes that are killed, stopped, started and cut off, with a small program in place of nodes."""

from __future__ import annotations

import socket
import sys
import time

import pytest

from stratalog.broker.local_cluster.cluster import ClusterFault, LocalCluster

NODE = """
import asyncio, signal, sys
settings = dict(line.split("=", 1) for line in open(sys.argv[1]) if "=" in line)
settings = {name: value.strip() for name, value in settings.items()}
bound = dict(one.split("://127.0.0.1:") for one in settings["listeners"].split(","))
others = [int(one.rpartition(":")[2]) for one in settings["controller.quorum.bootstrap.servers"].split(",")]
held = {}
async def answer(reader, writer):
    while line := await reader.readline():
        writer.write(line)
async def ask(reader, writer):
    number = int(await reader.readline())
    try:
        if number not in held:
            held[number] = await asyncio.open_connection("127.0.0.1", others[number - 1])
        held[number][1].write(b"ping\\n")
        got = await asyncio.wait_for(held[number][0].readline(), 1.5)
        writer.write(b"reached\\n" if got else b"ended\\n")
    except TimeoutError:
        writer.write(b"silence\\n")
    except OSError:
        writer.write(b"ended\\n")
    writer.close()
async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await asyncio.start_server(answer, "127.0.0.1", int(bound["CONTROLLER"]))
    await asyncio.start_server(ask, "127.0.0.1", int(bound["PLAINTEXT"]))
    print("INFO starts", file=sys.stderr, flush=True)
    if settings.get("broker.rack") == "broken":
        sys.exit("Error: broken")
    if settings.get("broker.rack") != "slow":
        print("ready kafka=127.0.0.1:" + bound["PLAINTEXT"], flush=True)
    await stop.wait()
    sys.exit(3 if settings.get("broker.rack") == "sour" else 0)
asyncio.run(main())
"""


@pytest.fixture
def make(stratalog_loop, tmp_path):
    """Makes clusters of stand-ins; all are gone after the test."""
    clusters = []

    def made(count: int = 2, **options):
        def command(path: str) -> list[str]:
            return [sys.executable, "-c", NODE, path]

        clusters.append(LocalCluster(str(tmp_path), stratalog_loop, count=count, command=command, **options))
        return clusters[-1]

    yield made
    for cluster in clusters:
        cluster.discard()
        assert cluster.running == ()


def reach(cluster: LocalCluster, one: int, other: int) -> str:
    """Whether one node reaches the controller of another over the connection that it holds, asked as a client."""
    host, _, port = cluster.address(one).rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as asked, asked.makefile("rw") as stream:
        stream.write(f"{other}\n")
        stream.flush()
        return stream.readline().strip()


@pytest.mark.story
def test_links_are_cut_and_heal_while_clients_reach_every_node(make):
    """Both directions of the one link, and no other."""
    cluster = make(3)
    cluster.start()
    cluster.wait_ready()
    assert (cluster.node_ids, cluster.running) == ((1, 2, 3), (1, 2, 3))
    assert cluster.bootstrap.split(",") == [cluster.address(node_id) for node_id in (1, 2, 3)]
    assert reach(cluster, 1, 2) == "reached"
    cluster.partition(1, 2)
    assert [reach(cluster, *pair) for pair in ((1, 2), (2, 1), (1, 3), (2, 3))] == [
        "silence",
        "silence",
        "reached",
        "reached",
    ]
    cluster.heal(1, 2)
    assert reach(cluster, 3, 1) == "reached"
    cluster.isolate(3)
    assert [reach(cluster, *pair) for pair in ((3, 1), (2, 3))] == ["silence", "silence"]
    cluster.heal()
    assert reach(cluster, 3, 1) == "reached"
    with pytest.raises(ClusterFault, match="no link between nodes 1 and 1"):
        cluster.partition(1, 1)


def test_nodes_are_killed_stopped_and_started_on_their_ports(make):
    """The log of a node has all of its starts."""
    cluster = make()
    cluster.start()
    cluster.wait_ready()
    cluster.kill(2)
    assert cluster.running == (1,)
    assert reach(cluster, 1, 2) == "ended"
    with pytest.raises(ClusterFault, match="node 2 does not run"):
        cluster.stop(2)
    with pytest.raises(ClusterFault, match="node 1 runs already"):
        cluster.start(1)
    cluster.start(2)
    cluster.wait_ready()
    assert reach(cluster, 2, 1) == "reached"
    assert cluster.log(2).count("INFO starts") == 2
    cluster.stop(1)
    assert cluster.running == (2,)
    cluster.wait_ready()
    cluster.start()
    cluster.wait_ready()
    assert cluster.running == (1, 2)


def test_a_node_that_does_not_come_up_is_said_with_its_last_lines(make):
    """With its code, or after the time that a test gives it."""
    cluster = make(1, settings={"broker.rack": "broken"})
    cluster.start()
    with pytest.raises(ClusterFault, match=r"node 1 ended with 1 before it served; .*(?s:.)*Error: broken"):
        cluster.wait_ready()


def test_a_node_that_is_late_is_said(make):
    """To be ready."""
    cluster = make(1, settings={"broker.rack": "slow"})
    cluster.start()
    while "INFO starts" not in cluster.log(1):
        time.sleep(0.01)
    with pytest.raises(ClusterFault, match=r"node 1 does not serve after 0.1 s; (?s:.)*INFO starts"):
        cluster.wait_ready(0.1)


def test_a_stop_that_fails_is_said(make):
    """With the exit code."""
    cluster = make(1, settings={"broker.rack": "sour"})
    cluster.start()
    cluster.wait_ready()
    with pytest.raises(ClusterFault, match="node 1 ended with 3 when it was stopped"):
        cluster.stop(1)


def test_without_an_active_controller_the_wait_ends(make):
    """A node that tells of no quorum knows none."""
    cluster = make(1)
    with pytest.raises(ClusterFault, match=r"no controller is active after 0.3 s; running: \(\)"):
        cluster.active_controller(0.3)
