"""Facts of this machine, and of a bucket."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from stratalog.spark.sessions import machine_facts as module
from stratalog.spark.sessions.doctor import BucketFacts, PythonFacts, Status, diagnose
from stratalog.spark.sessions.machine_facts import bucket_facts, machine_facts
from stratalog.tier.manifests.leases import list_leases
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.store import StoreDenied, StoreUnavailable


def script(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.story
def test_this_machine_passes(tmp_path: Path) -> None:
    """The interpreter of the tests as that of executors: with it all is there that is needed."""
    java = script(tmp_path / "jdk" / "bin" / "java", "echo 'openjdk version \"21.0.1\"' >&2")
    facts = machine_facts({**os.environ, "JAVA_HOME": str(tmp_path / "jdk"), "PYSPARK_PYTHON": sys.executable})
    assert facts.python == sys.version_info[:2]
    assert (facts.javas[0].path, facts.javas[0].version) == (java, 21)
    assert facts.worker == PythonFacts(sys.executable, sys.version_info[:2], has_stratalog=True)
    assert facts.packages["pyspark"].startswith("4.")
    assert facts.registered == facts.socket_error == ""
    assert any(name.startswith("hadoop-client-api-") for name in facts.jars)
    assert not [each for each in diagnose(facts) if each.status is Status.FAILED]


def test_the_jars_are_those_of_spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where that is set; without any Spark there are none."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "a.jar").touch()
    found = machine_facts({"SPARK_HOME": str(tmp_path), "PATH": ""})
    assert (found.spark_jars, found.jars) == (str(tmp_path / "jars"), {"a.jar"})
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    assert machine_facts({"PATH": ""}).spark_jars == ""


def test_the_python_of_executors_is_run(tmp_path: Path) -> None:
    """By name or by path; one that fails, one that is not there, and none at all."""
    script(tmp_path / "broken", "exit 3")
    path = {"PATH": str(tmp_path)}
    assert machine_facts({**path, "PYSPARK_PYTHON": "broken"}).worker == PythonFacts(str(tmp_path / "broken"))
    assert machine_facts({**path, "PYSPARK_PYTHON": "absent"}).worker == PythonFacts("absent")
    assert machine_facts(path).worker is None
    script(tmp_path / "python3", "echo '[3, 9, false]'")
    assert machine_facts(path).worker == PythonFacts(str(tmp_path / "python3"), (3, 9), named=False)


def test_a_source_that_cannot_be_loaded_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether its module is missing or its class."""
    monkeypatch.setitem(sys.modules, "stratalog.spark.source.source", None)
    assert "its source cannot be loaded" in module._registration()
    monkeypatch.setitem(sys.modules, "pyspark_stratalog", None)
    assert "pyspark_stratalog cannot be imported" in module._registration()


def test_the_decoder_of_this_process_is_reported() -> None:
    """By the environment that is given."""
    facts = machine_facts({"STRATALOG_KERNEL": "off"})
    assert (facts.kernel, facts.kernel_error) == ("STRATALOG_KERNEL is 'off'", "")
    facts = machine_facts({"STRATALOG_KERNEL": "of"})
    assert "it may be" in facts.kernel_error


def test_a_directory_without_sockets_is_reported(tmp_path: Path) -> None:
    """With the system's own words."""
    assert module._socket_error(str(tmp_path / "absent")) != ""


class Refusing:
    """A store some of whose calls fail."""

    def __init__(self, store: Any, **errors: Exception) -> None:
        self._store = store
        self._errors = errors

    def __getattr__(self, name: str) -> Any:
        if name in self._errors:
            return self._fail(self._errors[name])
        return getattr(self._store, name)

    @staticmethod
    def _fail(error: Exception) -> Any:
        def fail(*_: Any, **__: Any) -> Any:
            raise error

        return fail


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore("memory:doctor")
    made.put("topics/orders/x", b"data")
    return made


def test_a_bucket_is_listed_read_and_leased(store: MemoryStore) -> None:
    """And holds afterwards what it held before."""
    assert bucket_facts("memory:doctor", lambda: store) == BucketFacts("memory:doctor", topics=1)
    assert list_leases(store) == []
    assert bucket_facts("memory:doctor", lambda: MemoryStore("memory:empty")).topics == 0


def test_the_step_that_fails_is_reported(store: MemoryStore) -> None:
    """And whether it is a matter of rights."""
    denied = StoreDenied("list", "topics/", "s3://b", "access denied")
    away = StoreUnavailable("get", "topics/", "s3://b", "timed out")

    def facts(**errors: Exception) -> BucketFacts:
        return bucket_facts("s3://b", lambda: Refusing(store, **errors))  # type: ignore[arg-type, return-value]

    assert facts(list=denied) == BucketFacts("s3://b", listed=str(denied), denied=True)
    assert facts(get_suffix=away) == BucketFacts("s3://b", read=str(away), topics=1)
    assert facts(put=denied) == BucketFacts("s3://b", leased="access denied", denied=True, topics=1)

    def nowhere() -> Any:
        raise FileNotFoundError(2, "No such file or directory", "/srv/none")

    assert "/srv/none" in bucket_facts("file:///srv/none", nowhere).opened
