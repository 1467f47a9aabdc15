"""Nodes as child processes, with small programs in place of nodes."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stratalog.broker.local_cluster.child_process import ChildProcess, serve_command
from stratalog.broker.local_cluster.supervision import Ended, Wrote
from stratalog.broker.settings.config import load_config


@pytest.fixture
def start():
    """Starts programs; the result has the child and the queue of its events. All are gone after the test."""
    children = []

    def started(program: str):
        events = queue.SimpleQueue()
        command = [sys.executable, "-c", program]
        children.append(ChildProcess(4, command, events.put, environment=os.environ))
        return children[-1], events

    yield started
    for child in children:
        child.kill()
        assert child.wait(30) is not None


def all_of(events):
    """Every event up to the end of the process."""
    found = []
    while not found or not isinstance(found[-1], Ended):
        found.append(events.get(timeout=30))
    return found


def test_lines_of_both_streams_come_before_the_end(start):
    """With their stream, without their line ends; the last one needs none."""
    child, events = start("import sys; print('one'); sys.stderr.buffer.write(b'two\\r\\nthr\\xffe'); sys.exit(3)")
    found = all_of(events)
    assert [each for each in found if isinstance(each, Wrote) and each.on_stdout] == [Wrote(4, "one", on_stdout=True)]
    assert [each.text for each in found[:-1] if not each.on_stdout] == ["two", "thr\ufffde"]
    assert found[-1] == Ended(4, 3)
    assert child.wait(0) == 3


def test_a_long_line_comes_in_parts(start):
    """Memory of the parent stays bounded."""
    _, events = start("print('x' * 200_000)")
    texts = [each.text for each in all_of(events)[:-1]]
    assert "".join(texts) == "x" * 200_000
    assert max(map(len, texts)) == 1 << 16


def test_a_child_is_stopped_or_killed_by_signals(start):
    """The end has the number of the signal."""
    wait = "import time; print('up', flush=True); time.sleep(60)"
    for end, number in ((ChildProcess.terminate, signal.SIGTERM), (ChildProcess.kill, signal.SIGKILL)):
        child, events = start(wait)
        assert events.get(timeout=30).text == "up"
        assert child.wait(0) is None
        end(child)
        assert all_of(events) == [Ended(4, -number)]
        end(child)


def test_a_process_that_leaves_its_pipes_to_another_ends_all_the_same(start):
    """A worker that outlives its node for a moment may hold them."""
    program = (
        "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid)"
    )
    child, events = start(program)
    pid = int(events.get(timeout=30).text)
    assert child.wait(20) == 0
    os.kill(pid, signal.SIGKILL)


def test_a_child_outlives_the_thread_that_asked_for_it_and_not_its_parent():
    """The kernel tells it; a ctrl-C on the terminal does not reach it."""
    program = (
        "import os, sys, threading, time\n"
        "from stratalog.broker.local_cluster.child_process import ChildProcess\n"
        "command = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        "def start(): print(ChildProcess(1, command, print, environment=os.environ).pid, flush=True)\n"
        "thread = threading.Thread(target=start); thread.start(); thread.join(); time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        pid = int(parent.stdout.readline())
        time.sleep(0.3)
        assert os.getsid(pid) == pid
    finally:
        parent.kill()
        parent.wait(30)
        parent.stdout.close()
    for _ in range(1000):
        try:
            if b") Z " in Path(f"/proc/{pid}/stat").read_bytes():
                return
        except FileNotFoundError:
            return
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the child is still there")


def test_the_command_of_a_node_is_serve_with_its_file(tmp_path):
    """As anybody would type it."""
    path = tmp_path / "node-1.properties"
    path.write_text("node.id=5\n")
    assert load_config(path=str(path)).node_id == 5
    command = serve_command(str(path), "--print-config", "--log-level", "error")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"node.id=5  # {path}:1\n" in done.stdout
