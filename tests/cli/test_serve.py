"""Running a broker: its output, its settings, its end."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from stratalog.broker.settings.config import Flags, load_config
from stratalog.cli.main import cli
from stratalog.cli.serve import banner

READY = re.compile(r"ready kafka=127\.0\.0\.1:[1-9]\d* http=127\.0\.0\.1:[1-9]\d* bucket=file:///\S+\n")


def run(*arguments: str, **environment: str):
    """Invoke the command line in this process."""
    return CliRunner().invoke(cli, list(arguments), env=environment)


def test_dev_is_one_line_on_stdout_and_leaves_nothing_behind(start_command) -> None:
    """The line, the banner on stderr, a clean end on SIGINT, and the folder gone."""
    process = start_command("dev")
    ready = process.stdout.readline()
    assert READY.fullmatch(ready)
    bucket = Path(ready.split("bucket=file://")[1].strip())
    assert bucket.parent.is_dir()
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out == ""
    assert f"kcat -C -b {ready.split()[1].removeprefix('kafka=')} -t demo -e" in errors
    assert f'.load("file://{bucket}")' in errors
    assert not bucket.parent.exists()


@pytest.mark.story
def test_serve_keeps_its_data_and_marks_a_clean_stop(start_command, tmp_path) -> None:
    """A file, one setting on the command line, SIGTERM; settings without effect are logged."""
    (tmp_path / "server.properties").write_text("node.id=7\nnum.io.threads=8\n")
    process = start_command("serve", "--config", "server.properties", "--data", "data", "--set", "num.partitions=3")
    assert f"bucket=file://{tmp_path}/data-bucket" in process.stdout.readline()
    process.terminate()
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert "server.properties:2: num.io.threads has no effect: " in errors
    assert "node.id=7" in (tmp_path / "data" / "meta.properties").read_text()
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


@pytest.mark.story
def test_a_closed_terminal_stops_it_in_order(start_command, tmp_path) -> None:
    """SIGHUP is no crash, however often it comes: the stop is announced and marked as clean."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup themselves
    try:
        process = start_command("serve", "--data", "data")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert process.stdout.readline().startswith("ready")
    for _ in range(3):
        process.send_signal(signal.SIGHUP)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "stopping" in errors
    assert "Second" not in errors
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


@pytest.mark.story
def test_under_nohup_a_closed_terminal_means_nothing(start_command, tmp_path) -> None:
    """The signal that is ignored stays ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = start_command("serve", "--data", "data")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert process.stdout.readline().startswith("ready")
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    process.terminate()
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors.count("stopping")) == (0, 1)


@pytest.mark.story
def test_a_taken_port_ends_the_start_with_words(live_broker, tmp_path) -> None:
    """Exit code 1, no trace."""
    command = [
        sys.executable,
        "-m",
        "stratalog.cli.main",
        "serve",
        "--data",
        str(tmp_path / "data"),
        "--http",
        "127.0.0.1:0",
    ]
    found = subprocess.run(
        [*command, "--listen", live_broker.kafka], capture_output=True, text=True, timeout=30, check=False
    )
    assert found.returncode == 1
    assert "Error: " in found.stderr
    assert "Traceback" not in found.stderr
    assert found.stdout == ""


def test_print_config_shows_values_and_origins(tmp_path) -> None:
    """And starts nothing."""
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\n")
    result = run("serve", "--config", str(path), "--print-config", "--json", STRATALOG_LOG_SEGMENT_BYTES="1048576")
    rows = {row["name"]: row for row in map(json.loads, result.stdout.splitlines())}
    assert rows["num.partitions"] == {"name": "num.partitions", "value": "2", "origin": f"{path}:1"}
    assert rows["log.segment.bytes"]["origin"] == "environment STRATALOG_LOG_SEGMENT_BYTES"
    text = run("serve", "--config", str(path), "--print-config").stdout
    assert f"num.partitions=2  # {path}:1\n" in text
    path.write_text("ssl.key.password=hunter2\n")
    refused = run("serve", "--config", str(path), "--print-config")
    assert "ssl.key.password would protect nothing" in refused.stderr
    assert "hunter2" not in refused.stdout + refused.stderr


def test_wrong_settings_are_all_named_with_exit_code_2(tmp_path) -> None:
    """File, variable and flag in one message."""
    path = tmp_path / "server.properties"
    path.write_text("zookeeper.connect=x\nlog.segment.byte=5\n")
    result = run("serve", "--config", str(path), "--set", "num.partitions=x", STRATALOG_NONSENSE="1")
    assert result.exit_code == 2
    for part in ("ZooKeeper", "did you mean log.segment.bytes", "STRATALOG_NONSENSE"):
        assert part in result.stderr


def test_a_missing_file_is_a_usage_error() -> None:
    """Named by click."""
    assert run("serve", "--config", "/nowhere/server.properties").exit_code == 2


def test_the_banner_says_what_to_type_and_what_happens_to_the_data() -> None:
    """Kept with --data, gone without; addresses only where they are not the defaults."""
    config = load_config(flags=Flags(data="/keep", bucket="s3://archive/x"))
    kept = banner(("127.0.0.1", 9092), ("127.0.0.1", 8080), config, "/keep")
    assert "is in /keep and it is kept" in kept
    assert "stratalog tier status demo\n" in kept
    assert "http://127.0.0.1:8080/\n" in kept
    text = banner(("::1", 9092), ("127.0.0.1", 5), config, "/tmp/x")
    assert "it goes when this ends" in text
    assert "stratalog tier status demo -b [::1]:9092 --http 127.0.0.1:5\n" in text
    assert '.load("s3://archive/x")' in text


@pytest.mark.parametrize("together", [False, True])
async def test_the_second_signal_ends_at_once(monkeypatch, capsys, together) -> None:
    """The first only asks; two that arrive together are one, as timeout(1) sends them."""
    import asyncio
    import os

    from stratalog.cli import serve as cli_serve
    from stratalog.cli.serve import _handle_signals

    monkeypatch.setattr(cli_serve, "TOGETHER_SECONDS", 3600 if together else 0)

    codes, ended = [], asyncio.Event()
    monkeypatch.setattr(os, "_exit", lambda code: (codes.append(code), ended.set()))
    stop = asyncio.Event()
    _handle_signals(stop)
    loop = asyncio.get_running_loop()
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(stop.wait(), 5)
        assert codes == []
        os.kill(os.getpid(), signal.SIGINT)
        if together:
            for _ in range(10):
                await asyncio.sleep(0)
            assert codes == []
            return
        await asyncio.wait_for(ended.wait(), 5)
        assert codes == [1]
        assert "Second SIGINT: stopping at once" in capsys.readouterr().err
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.remove_signal_handler(number)


def test_dev_takes_another_port_when_its_own_is_taken(capsys) -> None:
    """And says so."""
    import socket

    from stratalog.cli.serve import free_or_any

    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        host, port = free_or_any(address).split(":")
        assert host == "127.0.0.1"
        assert free_or_any(f"{host}:{port}") == f"{host}:{port}" != address
        assert "is taken" in capsys.readouterr().err
    assert free_or_any(address) == address


async def test_a_second_signal_ends_a_process_whose_stderr_has_no_reader(monkeypatch):
    """The sentence is lost, the end is not: a parent that was killed leaves pipes like these."""
    import asyncio
    import os

    from stratalog.cli import serve

    ended = []

    def broken(_text):
        raise BrokenPipeError

    monkeypatch.setattr(serve, "note", broken)
    monkeypatch.setattr(serve, "TOGETHER_SECONDS", 0.0)
    monkeypatch.setattr(os, "_exit", ended.append)
    stop = asyncio.Event()
    serve._handle_signals(stop)
    loop = asyncio.get_running_loop()
    try:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.02)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.remove_signal_handler(number)
    assert stop.is_set()
    assert ended == [1]


async def test_a_node_is_stopped_that_waits_for_others(monkeypatch, tmp_path, caplog):
    """One of three voters, whose others are away: a start that comes to no end is given up, and can be repeated."""
    import asyncio
    import logging

    from stratalog.cli import serve
    from tests.broker.nodes_of_a_cluster import RunningNodes, node_of

    monkeypatch.setattr(serve, "START_SECONDS", 0.1)
    config = RunningNodes(tmp_path, dict.fromkeys((1, 2, 3), "broker,controller"))[1].config()
    for _ in range(2):
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(0.3, stop.set)
        with caplog.at_level(logging.INFO):
            assert await asyncio.wait_for(serve._started(node_of(config), stop), 8) is False
        assert "the start is given up" in caplog.text


async def test_a_start_that_ends_soon_is_stopped_in_order():
    """It has a few seconds; one that fails says why."""
    import asyncio

    from stratalog.cli import serve

    class Starting:
        def __init__(self, error):
            self.error = error

        async def start(self):
            await asyncio.sleep(0.02)
            if self.error is not None:
                raise self.error

    stop = asyncio.Event()
    stop.set()
    assert await serve._started(Starting(None), stop)
    with pytest.raises(OSError, match="no port"):
        await serve._started(Starting(OSError("no port")), stop)
    assert await serve._started(Starting(None), asyncio.Event())
