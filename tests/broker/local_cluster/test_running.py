"""Several nodes as children of one process, with a small program that says ready in place of a node."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

NODE = """
import os, signal, sys, threading
number, mode = sys.argv[1:]
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: None if mode == "stubborn" else stop.set())
print("INFO node %s starts" % number, file=sys.stderr, flush=True)
if mode == "broken":
    sys.exit("Error: port taken")
print("ready kafka=127.0.0.1:909%s http=127.0.0.1:808%s bucket=file:///b" % (number, number), flush=True)
stop.wait()
print("INFO node %s stops" % number, file=sys.stderr, flush=True)
"""
PARENT = """
import os, sys, time
from stratalog.broker.local_cluster.running import run_nodes
commands = {int(word[0]): [sys.executable, "-c", sys.argv[1], *word.split(":")] for word in sys.argv[3:]}
def write(text): print(text, flush=True)
def note(text): print(text, file=sys.stderr, flush=True)
print(os.getpid(), flush=True)
in_order = run_nodes(
    commands, environment=os.environ, write=write, note=note, monotonic=time.monotonic, grace_ms=int(sys.argv[2])
)
sys.exit(not in_order)
"""


@pytest.fixture
def run():
    """Starts a parent of stand-ins, ``1:good`` and the like, and waits for lines of its stdout."""
    processes = []

    def started(*nodes: str, lines: int = 0, grace_ms: int = 20_000):
        command = [sys.executable, "-c", PARENT, NODE, str(grace_ms), *nodes]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        assert int(process.stdout.readline()) == process.pid
        return process, [process.stdout.readline().strip() for _ in range(lines)]

    yield started
    for process in processes:
        process.kill()
        process.communicate()


def ended(process):
    """Exit code, the rest of stdout, the lines of stderr."""
    out, errors = process.communicate(timeout=60)
    return process.returncode, out, errors.splitlines()


def test_three_nodes_are_one_command(run):
    """A ready line each and one for all, lines with the node before them, and one SIGINT that stops them in order."""
    process, lines = run("1:good", "2:good", "3:good", lines=4)
    assert {line.split()[1] for line in lines[:3]} == {"node=1", "node=2", "node=3"}
    assert lines[3] == "ready nodes=3 kafka=127.0.0.1:9091,127.0.0.1:9092,127.0.0.1:9093 bucket=file:///b"
    process.send_signal(signal.SIGINT)
    code, out, errors = ended(process)
    assert (code, out) == (0, "")
    assert {f"{number} | INFO node {number} starts" for number in (1, 2, 3)} <= set(errors)
    assert [line for line in errors if not line.endswith("starts")] == [
        "SIGINT: stopping node 3, then 2, then 1.",
        *(
            line
            for number in (3, 2, 1)
            for line in (f"{number} | INFO node {number} stops", f"Node {number} has stopped.")
        ),
    ]


def test_a_node_that_dies_leaves_the_others_serving(run):
    """It is said with its last lines; the end counts as a failure."""
    process, lines = run("1:good", "2:broken", lines=1)
    assert lines[0].startswith("ready node=1 ")
    said = []
    while not said or not said[-1].startswith("  Error"):
        said.append(process.stderr.readline().rstrip("\n"))
    at = said.index("Node 2 ended with exit code 1. Node 1 goes on.")
    assert [line for line in said[at + 1 :] if "1 |" not in line] == [
        "The last lines of node 2:",
        "  INFO node 2 starts",
        "  Error: port taken",
    ]
    assert process.poll() is None
    process.terminate()
    code, _, errors = ended(process)
    assert code == 1
    assert errors[-3:] == ["SIGTERM: stopping node 1.", "1 | INFO node 1 stops", "Node 1 has stopped."]


def test_the_command_ends_when_no_node_is_left(run):
    """Without a signal."""
    process, _ = run("1:broken", "2:broken")
    code, out, errors = ended(process)
    assert (code, out) == (1, "")
    assert sum("No node is left." in line for line in errors) == 1


def test_a_node_that_will_not_stop_is_killed_after_its_grace(run):
    """And said."""
    process, _ = run("1:good", "2:stubborn", lines=3, grace_ms=300)
    process.terminate()
    code, _, errors = ended(process)
    assert code == 1
    assert "Node 2 has not stopped within 0.3 s and is killed; its log is recovered at the next start." in errors
    assert errors[-1] == "Node 1 has stopped."


def test_a_second_signal_ends_it_at_once(run):
    """No child is left."""
    process, _ = run("1:stubborn", "2:stubborn", lines=3)
    process.terminate()
    while "stopping node 2" not in process.stderr.readline():
        pass
    children = _children(process.pid)
    assert len(children) == 2
    while process.poll() is None and _children(process.pid):
        process.send_signal(signal.SIGINT)
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    code, _, errors = ended(process)
    assert code == 1
    assert "Second SIGINT: stopping at once; logs are recovered at the next start." in errors
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)


def _children(pid: int) -> list[int]:
    """The processes whose parent is ``pid``, by whichever of its threads."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(word) for task in tasks for word in (task / "children").read_text().split()]
