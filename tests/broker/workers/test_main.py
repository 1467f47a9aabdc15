import socket
import subprocess
import sys
import threading
import time

import pytest

from stratalog.broker.workers.channel import Kind, WorkerMessages, encode_message
from stratalog.broker.workers.main import Start, load_target, serve
from stratalog.wire.errors import Invalid


class Adder:
    """A target."""

    def __init__(self, plus=0):
        self.plus = plus

    def execute(self, command):
        return command + self.plus


def test_targets_are_named_module_and_factory():
    """``module:factory`` is imported and called with the options; any other form is refused."""
    assert load_target("fractions:Fraction", {"numerator": 3}) == 3
    for target in ("fractions", ":Fraction", "fractions:"):
        with pytest.raises(Invalid, match="module:factory"):
            load_target(target, {})


def test_commands_before_the_start_are_ignored_and_the_end_of_the_socket_ends_serving(monkeypatch):
    """The serving loop answers with the incarnation and id it was asked with, and returns at end of file."""
    monkeypatch.setattr("stratalog.broker.workers.main.load_target", lambda target, options: Adder(**options))
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=serve, args=(theirs,))
    thread.start()
    ours.sendall(encode_message(7, 1, Kind.COMMAND, 1))
    ours.sendall(encode_message(7, 0, Kind.START, Start("any:thing", {"plus": 10}, threads=1)))
    ours.sendall(encode_message(7, 2, Kind.COMMAND, 2))
    (message,) = list(WorkerMessages().feed(ours.recv(1000)))
    assert (message.incarnation, message.request_id, message.kind, message.load()) == (7, 2, Kind.REPORT, 12)
    ours.close()
    thread.join(10)
    assert not thread.is_alive()
    theirs.close()


class Ageing:
    """A target whose commands take 0.3 s. Their reports say how long they have waited."""

    def aged(self, command, waited_ms):
        return (command, waited_ms)

    def execute(self, command):
        time.sleep(0.3)
        return command


def test_a_command_that_has_waited_for_a_thread_knows_for_how_long(monkeypatch):
    """The one before took the only one."""
    monkeypatch.setattr("stratalog.broker.workers.main.load_target", lambda target, options: Ageing())
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=serve, args=(theirs,))
    thread.start()
    ours.sendall(encode_message(7, 0, Kind.START, Start("any:thing", threads=1)))
    for number in (1, 2):
        ours.sendall(encode_message(7, number, Kind.COMMAND, number))
    messages, found = WorkerMessages(), []
    while len(found) < 2:
        found += [one.load() for one in messages.feed(ours.recv(1000)) if one.kind is Kind.REPORT]
    ours.close()
    thread.join(10)
    theirs.close()
    (first, at_once_ms), (second, waited_ms) = found
    assert (first, second) == (1, 2)
    assert at_once_ms < 250 <= waited_ms


def test_a_worker_whose_parent_is_another_process_exits_at_once():
    """A parent that died before the child could ask to die with it is noticed."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        arguments = [sys.executable, "-m", "stratalog.broker.workers.main", str(theirs.fileno()), "1"]
        assert subprocess.run(arguments, pass_fds=[theirs.fileno()], timeout=30, check=False).returncode == 0


def test_starting_a_worker_imports_neither_boto3_nor_aiohttp():
    """The child begins small: what only some commands need is imported by them."""
    program = (
        "import sys, stratalog.broker.workers.main; "
        "print([name for name in ('boto3', 'aiohttp', 'prometheus_client', 'asyncio') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert output.stdout == "[]\n"


def test_a_worker_cannot_take_all_memory_and_lives_on():
    """An allocation beyond the limit fails in the command that wanted it."""
    program = (
        "from stratalog.broker.workers.main import limit_memory\n"
        "limit_memory(64 << 20)\n"
        "kept = bytearray(16 << 20)\n"
        "try:\n"
        "    bytearray(1 << 30)\n"
        "except MemoryError:\n"
        "    print('refused', len(kept))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["refused", str(16 << 20)]
