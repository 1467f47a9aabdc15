"""Test suites of others, fetched as they are published and run against a broker of ours."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from stratalog.broker.local_cluster.cluster import LocalCluster

BUILD = Path(__file__).parent.parent.parent / "build" / "conformance"

SETTINGS = {
    "node_id": "0",
    "advertised_listeners": "PLAINTEXT://127.0.0.1:0",
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "auto_create_topics_enable": "true",
    "super_users": "User:ANONYMOUS",
    "num_partitions": "4",
    "offsets_topic_replication_factor": "1",
    "transaction_state_log_replication_factor": "1",
    "group_initial_rebalance_delay_ms": "0",
    "group_min_session_timeout_ms": "1000",
}
"""Settings of the broker that these suites assume; Kafka itself is started with the same to be judged by them."""

# The suite's published archive leaves this module out. Only brokers that were started elsewhere are needed here.
SERVICE = '''
"""The broker under test was started elsewhere."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass


class SpawnedService:
    def __init__(self, *args, **kwargs):
        raise RuntimeError("this run starts no broker of its own")
'''


ONE_BROKER = (
    "test/integration/test_admin_integration.py::test_alter_partition_reassignments",  # to all brokers of the cluster: a partition has one replica here
    "test/integration/test_admin_integration.py::test_alter_replica_log_dirs",  # names the first broker of a list, which need not have the replica
    "test/integration/test_admin_integration.py::test_create_partitions",  # names broker 0
    "test/integration/test_admin_integration.py::test_delete_records",  # expects the records of all leaders from one poll
    # Goes with the one before: pytest takes a name to be left out for the beginning of names.
    "test/integration/test_admin_integration.py::test_delete_records_with_errors",
)
"""Tests of kafka-python's that hold where one broker, number 0, has every partition. Left out where there are three."""


REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "broker.session.timeout.ms": "3000",
}
"""With these the death of a node is no more than a moment without a leader."""

KILL_SECONDS, DEAD_SECONDS = 10.0, 2.0
ROUNDS_UNDER_KILLS = 3


@contextmanager
def killing(cluster: LocalCluster) -> Iterator[list[int]]:
    """Kill a node every ten seconds, and start it again; the nodes that were killed so far.

    The first one stays: the clients of the suites get no other address.
    """
    killed: list[int] = []
    ending = threading.Event()

    def run() -> None:
        for victim in itertools.cycle(cluster.node_ids[1:]):
            if ending.wait(KILL_SECONDS):
                return
            cluster.kill(victim)
            killed.append(victim)
            time.sleep(DEAD_SECONDS)
            cluster.start(victim)

    thread = threading.Thread(target=run, name="kills", daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        ending.set()
        thread.join()


@dataclass(frozen=True)
class Judged:
    """The target that a suite is run against."""

    address: str
    left_out: tuple[str, ...] = ()
    """The suite's tests that suppose a broker by itself."""
    killed: Sequence[int] | None = None
    """The nodes that have been killed so far, one every ten seconds; None where all live."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of each test of a suite, by name."""

    passed: frozenset[str]
    skipped: frozenset[str]
    failed: dict[str, str]
    """With the first line of the reason."""


def outcome_of(report: Path) -> Outcome:
    """Read a JUnit report."""
    passed, skipped, failed = set(), set(), {}
    for case in ET.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        trouble = [child for child in case if child.tag in ("failure", "error")]
        if trouble:
            failed[name] = (trouble[0].get("message") or "").splitlines()[0][:300]
        elif case.find("skipped") is not None:
            skipped.add(name)
        else:
            passed.add(name)
    return Outcome(frozenset(passed), frozenset(skipped), failed)


def unpacked_source(requirement: str) -> Path:
    """The source distribution of a package, from the configured package index, in ``build/conformance``."""
    folder = BUILD / requirement.replace("==", "-")
    if not folder.exists():
        archives = BUILD / "archives"
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "download",
                "-q",
                "--no-deps",
                "--no-binary",
                ":all:",
                "-d",
                archives,
                requirement,
            ],
            check=True,
        )
        (archive,) = archives.glob(f"{requirement.split('==', maxsplit=1)[0].replace('-', '?')}*.tar.gz")
        with tarfile.open(archive) as tar:
            # Python before 3.11.4 knows no filters.
            tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    (root,) = folder.iterdir()
    return root


@pytest.fixture(scope="module", params=["one node", "three nodes", "three nodes under kills"])
def judged(request, start_shared_node, tmp_path_factory, stratalog_loop) -> Iterator[Judged]:
    """A broker with the settings that the suites assume: a cluster by itself, or one of three."""
    if request.param == "one node":
        yield Judged(start_shared_node(**SETTINGS).address)
        return
    settings = {
        name.replace("_", "."): value
        for name, value in SETTINGS.items()
        if name not in ("node_id", "advertised_listeners")
    }
    under_kills = request.param == "three nodes under kills"
    directory = str(tmp_path_factory.mktemp("judged"))
    cluster = LocalCluster(directory, stratalog_loop, settings=settings | (REPLICATED if under_kills else {}))
    address = cluster.address(cluster.node_ids[0])
    try:
        cluster.start()
        cluster.wait_ready()
        if under_kills:
            with killing(cluster) as killed:
                yield Judged(address, ONE_BROKER, killed)
        else:
            yield Judged(address, ONE_BROKER)
    finally:
        cluster.discard()


def _is_refused(why: str) -> bool:
    """Whether a test failed because a node was dead: kafka-python's administrator asks one, and gives up where that refuses."""
    return "KafkaConnectionError" in why and "ECONNREFUSED" in why


@pytest.fixture(scope="module")
def kafka_python_suite(judged) -> Outcome:
    """kafka-python's own integration tests, run once on each, and under kills as often as takes a few of those."""
    root = unpacked_source("kafka-python==3.0.12")
    (root / "test" / "__init__.py").touch()
    (root / "test" / "service.py").write_text(SERVICE)
    report = BUILD / "kafka-python.xml"
    suites = [f"test/integration/test_{name}_integration.py" for name in ("admin", "consumer", "producer")]
    options = ["-o", "addopts=", "-q", "--timeout=60", "--timeout-method=signal", f"--junitxml={report}"]
    options += [f"--deselect={name}" for name in judged.left_out]
    environment = {**os.environ, "KAFKA_ROOT": ".", "KAFKA_VERSION": "4.3.0", "KAFKA_URI": f"kafka://{judged.address}"}
    outcomes = []
    for _ in range(1 if judged.killed is None else ROUNDS_UNDER_KILLS):
        subprocess.run([sys.executable, "-m", "pytest", *options, *suites], cwd=root, env=environment, check=False)
        outcomes.append(outcome_of(report))
    passed = frozenset().union(*(one.passed for one in outcomes))
    failed = {
        name: why for one in outcomes for name, why in one.failed.items() if name not in passed or not _is_refused(why)
    }
    return Outcome(passed, outcomes[0].skipped, failed)
