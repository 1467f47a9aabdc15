"""Test suites of others, fetched as they are published and run against a broker of ours."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

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


@pytest.fixture(scope="module")
def judged(start_shared_node) -> Iterator:
    """A broker with the settings that the suites assume."""
    return start_shared_node(**SETTINGS)


@pytest.fixture(scope="module")
def kafka_python_suite(judged) -> Outcome:
    """kafka-python's own integration tests, run once."""
    root = unpacked_source("kafka-python==3.0.12")
    (root / "test" / "__init__.py").touch()
    (root / "test" / "service.py").write_text(SERVICE)
    report = BUILD / "kafka-python.xml"
    suites = [f"test/integration/test_{name}_integration.py" for name in ("admin", "consumer", "producer")]
    options = ["-o", "addopts=", "-q", "--timeout=60", "--timeout-method=signal", f"--junitxml={report}"]
    environment = {**os.environ, "KAFKA_ROOT": ".", "KAFKA_VERSION": "4.3.0", "KAFKA_URI": f"kafka://{judged.address}"}
    subprocess.run([sys.executable, "-m", "pytest", *options, *suites], cwd=root, env=environment, check=False)
    return outcome_of(report)
