"""A Spark standalone cluster on this machine: a master and workers in processes of their own, out of the pyspark package.

::

    python localstack/spark_cluster.py                                       # prints its URL, runs until Ctrl-C
    python localstack/spark_cluster.py -- sh -c 'spark-submit --master $SPARK_MASTER job.py'    # a command on it

From Python: ``with running() as cluster: ... cluster.url``.

Everything listens on 127.0.0.1. Executors see nothing of the caller's environment but what a machine has anyway: no
``PYTHONPATH``, no ``AWS_…``, no ``SPARK_…``. Which Python they start the driver says (``PYSPARK_PYTHON``). All processes that the cluster started end with it, Python workers too; should the
starter be killed, the kernel ends master and workers, and executors follow them.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))  # this directory is no package: see README.md

from servers import StartError, free_ports, stop_signal

START_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 20.0
_HIDDEN = ("PYTHON", "PYSPARK_", "SPARK_", "AWS_", "S3_", "HADOOP_", "VIRTUAL_ENV", "STRATALOG_")
_PR_SET_PDEATHSIG = 1
_SESSION_FIELD = 3
_LIBC = ctypes.CDLL(None, use_errno=True)


class Process(NamedTuple):
    """A process of the cluster; ``command`` is its whole command line."""

    pid: int
    command: str

    @property
    def is_executor(self) -> bool:
        """Whether it is the JVM of an executor."""
        return "CoarseGrainedExecutorBackend" in self.command

    @property
    def is_python_worker(self) -> bool:
        """Whether it is a Python worker of an executor, or the daemon that forks them."""
        return "pyspark.daemon" in self.command or "pyspark/daemon.py" in self.command


@dataclass(slots=True)
class Cluster:
    """A running cluster. ``directory`` holds logs and work; ``home`` is the Spark that it runs."""

    url: str
    home: Path
    directory: Path
    environment: Mapping[str, str]
    _leaders: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def processes(self) -> list[Process]:
        """Its running processes: master, workers, executors, Python workers. Their process groups differ, their sessions do not."""
        leaders = {each.pid for each in self._leaders}
        return [each for each in _all_processes() if _session_of(each.pid) in leaders]

    def logs(self) -> str:
        """The last words of master, workers and executors."""
        found = sorted(self.directory.rglob("*.log")) + sorted(self.directory.rglob("stderr"))
        return "\n".join(f"{path}:\n{path.read_text(errors='replace')[-2000:]}" for path in found)

    def stop(self) -> None:
        """End all of its processes; returns when none is left. Raises `StartError` if one does not go."""
        give_up = time.monotonic() + _STOP_TIMEOUT_S
        while there := self.processes():
            if time.monotonic() > give_up:
                raise StartError(f"these processes of the Spark cluster do not end: {there}")
            for each in there:
                _kill(each.pid)
            for leader in self._leaders:
                leader.poll()
            time.sleep(0.02)
        for leader in self._leaders:
            leader.wait()

    def launch(self, name: str, class_name: str, *arguments: str) -> None:
        """Start a process of the cluster whose words go to ``name.log``."""
        log_path = self.directory / f"{name}.log"
        with log_path.open("wb") as log:
            self._leaders.append(
                subprocess.Popen(
                    [str(self.home / "bin" / "spark-class"), class_name, *arguments],
                    env=dict(self.environment),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self.directory,
                    start_new_session=True,
                    preexec_fn=end_with_the_starter,  # noqa: PLW1509 - a single call into the kernel
                )
            )

    def check(self) -> None:
        """Raise `StartError` if master or worker has ended."""
        if any(leader.poll() is not None for leader in self._leaders):
            raise StartError(f"the Spark cluster has ended:\n{self.logs()}")


@contextmanager
def running(
    *,
    worker_count: int = 2,
    cores: int = 1,
    memory_mb: int = 1024,
    environment: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> Iterator[Cluster]:
    """Run a cluster until the block is left. Its executors see ``environment`` besides what a machine has anyway.

    ``home`` is another Spark than that of the pyspark package. Raises `StartError`.
    """
    with tempfile.TemporaryDirectory(prefix="stratalog-spark-", ignore_cleanup_errors=True) as name:
        cluster = _prepared(Path(name), environment or {}, home or spark_home())
        try:
            port = free_ports(2)
            cluster.url = f"spark://127.0.0.1:{port}"
            address = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(port + 1))
            cluster.launch("master", "org.apache.spark.deploy.master.Master", *address)
            for number in range(worker_count):
                place = ("--work-dir", str(cluster.directory / f"work-{number}"), "--webui-port", "0")
                size = ("--host", "127.0.0.1", "--cores", str(cores), "--memory", f"{memory_mb}m")
                cluster.launch(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *size, *place, cluster.url)
            _wait(cluster, port + 1, worker_count)
            yield cluster
        finally:
            cluster.stop()


def spark_home() -> Path:
    """Where the pyspark package lies, which is a whole Spark. Raises `StartError`."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise StartError("PySpark is not installed: pip install 'stratalog[spark]'")
    return Path(found.origin).parent


def _prepared(directory: Path, more: Mapping[str, str], home: Path) -> Cluster:
    (directory / "conf").mkdir()
    plain = {name: value for name, value in os.environ.items() if not name.startswith(_HIDDEN)}
    environment = {
        **plain,
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(directory / "conf"),
        "SPARK_LOCAL_DIRS": str(directory / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        **more,
    }
    return Cluster("", home, directory, environment)


def _wait(cluster: Cluster, web_port: int, worker_count: int) -> None:
    """Until the master says that so many workers are there."""
    give_up = time.monotonic() + START_TIMEOUT_S
    while _alive_workers(web_port) < worker_count:
        cluster.check()
        if time.monotonic() > give_up:
            raise StartError(f"the Spark cluster does not get up:\n{cluster.logs()}")
        time.sleep(0.1)


def _alive_workers(web_port: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{web_port}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError):
        return 0  # not yet


def end_with_the_starter() -> None:
    """To be called in a new process: the kernel ends it when the one that started it ends, however that happens."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _all_processes() -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                words = (folder / "cmdline").read_bytes()
            except OSError:  # it has just ended
                continue
            yield Process(int(folder.name), words.replace(b"\0", b" ").decode(errors="replace"))


def _session_of(pid: int) -> int:
    """The session of a process; -1 if it has ended, a zombie being one that has."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return -1
    words = status.rpartition(")")[2].split()  # a name may hold anything
    return -1 if words[0] == "Z" else int(words[_SESSION_FIELD])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a cluster, and a command on it if one was given; return the command's exit status."""
    parser = argparse.ArgumentParser(description="Run a Spark standalone cluster on this machine.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1, help="of each worker")
    parser.add_argument("--memory", type=int, default=1024, metavar="MB", help="of each worker, for executors")
    parser.epilog = "after `--`: a command to run with SPARK_MASTER and SPARK_HOME set"
    given = list(sys.argv[1:] if arguments is None else arguments)
    end = given.index("--") if "--" in given else len(given)
    options, command = parser.parse_args(given[:end]), given[end + 1 :]
    sizes = {"worker_count": options.workers, "cores": options.cores, "memory_mb": options.memory}
    try:
        with running(**sizes) as cluster:
            if command:
                named = {"SPARK_MASTER": cluster.url, "SPARK_HOME": str(cluster.home)}
                return subprocess.run(command, env={**os.environ, **named}, check=False).returncode
            stop = stop_signal()
            print(f"export SPARK_MASTER='{cluster.url}'", flush=True)
            stop.wait()
    except StartError as error:
        print(f"spark_cluster: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
