"""Log lines that strangers cause."""

import ast
import logging
import socket
import struct
import sys
from pathlib import Path

import pytest

from stratalog.broker.runtime.log_limits import (
    CHARACTERS_MAX,
    LINE_SECONDS,
    LINES_AT_ONCE,
    STRANGERS,
    TRACEBACK_CHARACTERS_MAX,
    LineBudget,
    LogLimits,
)
from stratalog.broker.runtime.metrics import Metrics

BROKER = Path(__file__).resolve().parents[3] / "broker"


@pytest.fixture
def limits():
    """Installed, with a time that the test moves."""
    now = [0.0]
    made = LogLimits(lambda: now[0])
    made.now = now
    made.metrics = Metrics()
    made.install(made.metrics)
    yield made
    made.remove()


def test_a_budget_gives_some_lines_at_once_and_then_one_now_and_then():
    """Quiet times save up no more than the first lines."""
    budget = LineBudget(0.0)
    assert sum(budget.take(0.0) for _ in range(100)) == LINES_AT_ONCE
    assert budget.left_out == 100 - LINES_AT_ONCE
    assert not budget.take(LINE_SECONDS * 0.9)
    assert budget.take(LINE_SECONDS * 1.1)
    assert sum(budget.take(10_000.0) for _ in range(100)) == LINES_AT_ONCE


def test_the_next_line_says_how_many_are_missing(limits, caplog):
    """Each place in the code is counted by itself."""
    log = logging.getLogger("stratalog.broker.network.connection")
    for number in range(100):
        log.warning("closing %d", number)
    log.warning("another place")
    assert [record.getMessage() for record in caplog.records] == [
        *(f"closing {number}" for number in range(LINES_AT_ONCE)),
        "another place",
    ]
    assert limits.left_out == 80
    assert "stratalog_log_lines_left_out_total 80.0" in limits.metrics.render().decode()


def test_a_gap_is_logged(limits, caplog):
    """With the first line after it."""
    log = logging.getLogger("stratalog.broker.network.server")
    for number in range(50):
        limits.now[0] = 100.0 if number == 49 else 0.0
        log.warning("refused")
    assert caplog.records[-1].getMessage() == "refused (29 more lines like this were not logged)"


def test_a_line_is_cut(limits, caplog):
    """A name of 32 KiB is not written out."""
    logging.getLogger("stratalog.broker.network.connection").warning("group %r", "x" * 32_000)
    (record,) = caplog.records
    assert len(record.getMessage()) < CHARACTERS_MAX + 100
    assert record.getMessage().endswith("(32008 characters)")


def test_a_traceback_is_cut(limits, caplog):
    """An error may quote what a client sent; where the first began and what the last says is kept."""
    log = logging.getLogger("stratalog.broker.requests.context")
    try:
        try:
            raise ValueError("x" * 1_000_000)
        except ValueError as error:
            raise KeyError("from it") from error
    except KeyError as error:
        log.error("Fetch v1 failed", exc_info=error)
    (record,) = caplog.records
    shown = logging.Formatter().format(record)
    assert len(shown) < TRACEBACK_CHARACTERS_MAX + 200
    assert "in test_a_traceback_is_cut" in shown
    assert "ValueError: xxx" in shown
    assert shown.endswith("KeyError: 'from it'")


def test_a_short_traceback_is_whole(limits, caplog):
    """Each of its lines says something."""
    log = logging.getLogger("stratalog.broker.requests.context")
    try:
        raise ValueError("short")
    except ValueError as error:
        log.error("Fetch v1 failed", exc_info=error)
        expected = logging.Formatter().formatException(sys.exc_info())
    assert logging.Formatter().format(caplog.records[0]).endswith(f"\n{expected}")


def test_loggers_of_the_brokers_own_work_are_not_limited(limits, caplog):
    """The log names each finding of recovery."""
    log = logging.getLogger("stratalog.broker.replicas.directories")
    for _ in range(100):
        log.warning("damage")
    assert len(caplog.records) == 100


def test_every_module_that_requests_go_through_is_limited():
    """A new one that logs is found here; the names in the list exist."""
    rooms = ("api", "shortcuts", "coordinators", "http", "network", "requests", "fetches")
    through = [path for room in rooms for path in (BROKER / room).glob("*.py")]
    names = set()
    for path in through:
        tree = ast.parse(path.read_text())
        calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
        logs = {
            call.attr
            for call in calls
            if isinstance(call, ast.Attribute) and isinstance(call.value, ast.Name) and call.value.id == "log"
        }
        if logs - {"debug", "addFilter"}:
            names.add("stratalog." + ".".join(path.relative_to(BROKER.parent).with_suffix("").parts))
    assert names - set(STRANGERS) == {"stratalog.broker.http.listener"}  # logs once, when it cannot be made
    own = {name for name in STRANGERS if name.startswith("stratalog.")}
    missing = {name for name in own if not (BROKER.parent / (name[10:].replace(".", "/") + ".py")).exists()}
    assert missing == set()


def test_a_flood_of_hostile_frames_is_a_few_lines(shared_broker, caplog):
    """A running broker: each connection is closed, and the log stays short."""
    caplog.set_level(logging.INFO)
    before = shared_broker.node.log_limits.left_out
    for number in range(200):
        with socket.create_connection(("127.0.0.1", shared_broker.port), timeout=10) as link:
            link.sendall(struct.pack(">ihhih", 10, 999, number, 1, -1))
            assert link.recv(1) == b""
    lines = [record for record in caplog.records if record.name == "stratalog.broker.network.connection"]
    assert len(lines) <= LINES_AT_ONCE + 10
    assert shared_broker.node.log_limits.left_out - before >= 170
