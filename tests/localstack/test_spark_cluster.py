"""The Spark cluster of localstack/: it comes up, and nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stratalog.spark.sessions.java import ensure_java

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]
PROGRAM = str(Path(__file__).resolve().parents[2] / "localstack" / "spark_cluster.py")
JOB = """
import os, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
look = lambda _: [" ".join(sorted(name for name in os.environ if name.startswith(("AWS_", "PYTHONPATH_", "SEEN_"))))]
print("executors see:", spark.sparkContext.parallelize(range(4), 4).mapPartitions(look).distinct().collect())
os.kill(os.getpid(), 9) if "die" in sys.argv else None
"""


@pytest.fixture(autouse=True)
def _java() -> None:
    ensure_java()


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A program that looks at the executors' environment."""
    path = tmp_path / "job.py"
    path.write_text(JOB)
    return path


def submit(cluster, job, *arguments):
    """Run it on the cluster."""
    conf = [part for pair in ("spark.driver.host=127.0.0.1", "spark.executor.memory=512m") for part in ("--conf", pair)]
    environment = {**os.environ, "SPARK_HOME": str(cluster.home), "PYSPARK_PYTHON": sys.executable}
    command = [str(cluster.home / "bin" / "spark-submit"), "--master", cluster.url, *conf, str(job), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def alive(pids):
    """Those of the processes that still run."""
    return [pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_program_runs_on_it_and_nothing_stays(load_program, job, monkeypatch):
    """Executors see what they are given, not what the caller has; a driver that dies takes nothing with it."""
    spark_cluster = load_program("spark_cluster")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the caller's")
    with spark_cluster.running(environment={"SEEN_BY_EXECUTORS": "1"}) as cluster:
        done = submit(cluster, job)
        assert "executors see: ['SEEN_BY_EXECUTORS']\n" in done.stdout, done.stderr[-3000:]
        assert submit(cluster, job, "die").returncode != 0
        assert "executors see: ['SEEN_BY_EXECUTORS']\n" in submit(cluster, job).stdout
        there = cluster.processes()
        assert sum("deploy.worker.Worker" in each.command for each in there) == 2
    assert alive([each.pid for each in there]) == []
    assert not cluster.directory.exists()


def test_a_starter_that_is_killed_takes_it_with_it(tmp_path):
    """By the kernel, which ends master and workers."""
    with (tmp_path / "out").open("w") as out:
        starter = subprocess.Popen([sys.executable, PROGRAM], stdout=out, start_new_session=True)
    end = time.monotonic() + 120
    while "SPARK_MASTER='spark://127.0.0.1:" not in (tmp_path / "out").read_text():
        assert time.monotonic() < end
        assert starter.poll() is None
        time.sleep(0.1)
    children = Path(f"/proc/{starter.pid}/task/{starter.pid}/children").read_text().split()
    assert len(alive(children)) == 3
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    while alive(children):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_command_gets_its_address():
    """And its exit status is the program's."""
    command = [sys.executable, "-c", "import os, sys; sys.exit(7 if os.environ['SPARK_MASTER'] else 0)"]
    done = subprocess.run([sys.executable, PROGRAM, "--workers", "1", "--", *command], capture_output=True, check=False)
    assert done.returncode == 7, done.stderr


def test_a_cluster_that_does_not_start_shows_its_log(load_program, tmp_path):
    """The error holds its output."""
    spark_cluster = load_program("spark_cluster")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "spark-class"
    program.write_text("#!/bin/sh\necho no such class >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(spark_cluster.StartError, match="no such class"), spark_cluster.running(home=tmp_path):
        pass
