"""A real cluster, executors that know nothing of this checkout, and the two ways in which stratalog comes to them."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stratalog.cli.spark.spark_zip import write_zip
from stratalog.spark.sessions.java import ensure_java
from stratalog.tier import open_store

ROOT = Path(__file__).resolve().parents[3]
STEPS = Path(__file__).with_name("steps.py")
JOB = ROOT / "spark" / "jobs" / "backfill.py"
TIMEOUT_SECONDS = 180
LOCAL_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
HIDDEN = ("PYTHON", "PYSPARK_", "SPARK_", "AWS_", "VIRTUAL_ENV")


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """All of this folder, with time to start clusters and drivers in."""
    for item in items:
        if item.nodeid.startswith("tests/spark/cluster/"):
            item.add_marker("cluster")
            item.add_marker(pytest.mark.timeout(2 * TIMEOUT_SECONDS))


def load(name: str, path: Path) -> ModuleType:
    """A module by its path: neither this folder nor localstack/ is a package."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def localstack() -> Callable[[str], ModuleType]:
    """Programs of localstack/ as modules."""
    return lambda name: load(f"stratalog_localstack_{name}", ROOT / "localstack" / f"{name}.py")


@pytest.fixture(scope="session")
def digest() -> Callable[..., list[Any]]:
    """How the program counts and hashes rows."""
    found: Callable[..., list[Any]] = load("stratalog_cluster_steps", STEPS).digest
    return found


@dataclass
class Driver:
    """A driver that runs: spark-submit, its JVM and its Python, one session of processes."""

    process: subprocess.Popen[str]
    log: Path

    def answers(self) -> Any:
        """Its last output, once it has ended well."""
        out = self.ended(0)
        return json.loads(out.strip().splitlines()[-1])

    def ended(self, code: int) -> str:
        """Its output, once it has ended with this exit code."""
        out, _ = self.process.communicate(timeout=TIMEOUT_SECONDS)
        assert self.process.returncode == code, f"{self.process.returncode}\n{out}\n{self.words()[-6000:]}"
        return out

    def words(self) -> str:
        """Its output on stderr."""
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """JVM and Python at once, as when a machine goes."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=TIMEOUT_SECONDS)

    def stop(self) -> None:
        """Leave nothing of it."""
        if self.process.poll() is None:
            self.kill()


@pytest.fixture(scope="session")
def new_python(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Makes interpreters that have the packages of this one, but stratalog only if a wheel of it is given."""

    def make(name: str, wheel: Path | None = None) -> str:
        place = tmp_path_factory.mktemp("pythons") / name
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
        python = str(place / "bin" / "python")
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        own = subprocess.run([python, "-I", "-c", code], check=True, capture_output=True, text=True).stdout.strip()
        # Packages of that folder can be imported; its .pth files, the checkout's among them, are not read.
        Path(own, "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
        if wheel is not None:
            pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
            subprocess.run([*pip, "--target", own, str(wheel)], check=True)
        return python

    return make


@pytest.fixture(scope="session")
def bare_python(new_python: Callable[..., str]) -> str:
    """An interpreter without stratalog."""
    python = new_python("bare")
    looked = subprocess.run(
        [python, "-I", "-c", "import pyarrow, stratalog"], capture_output=True, text=True, check=False
    )
    assert "No module named 'stratalog'" in looked.stderr
    return python


@pytest.fixture(scope="session")
def wheel_python(new_python: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """One into which stratalog's wheel was installed."""
    place = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(place), str(ROOT)]
    subprocess.run(pip, check=True)
    return new_python("wheel", next(place.glob("*.whl")))


@pytest.fixture(scope="session")
def zipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that ``stratalog spark-zip`` writes."""
    path = tmp_path_factory.mktemp("zip") / "stratalog.zip"
    assert write_zip(path) > 100
    return path


@pytest.fixture(scope="session")
def cluster(localstack: Callable[[str], ModuleType]) -> Iterator[Any]:
    """A master and two workers of one core each."""
    ensure_java()
    with localstack("spark_cluster").running() as started:
        yield started


@pytest.fixture
def submit(cluster: Any, localstack: Callable[[str], ModuleType], tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    """Runs a program on the cluster: ``python`` is that of driver and executors."""
    started: list[Driver] = []

    def start(
        *command: str,
        python: str,
        py_files: Path | None = None,
        conf: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Driver:
        plain = {name: value for name, value in os.environ.items() if not name.startswith(HIDDEN)}
        settings = {**LOCAL_CONF, "spark.local.dir": str(tmp_path / "local"), **(conf or {})}
        given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        shipped = ["--py-files", str(py_files)] if py_files else []
        log = tmp_path / f"driver-{len(started)}.log"
        with log.open("w") as errors:
            process = subprocess.Popen(
                [str(cluster.home / "bin" / "spark-submit"), "--master", cluster.url, *given, *shipped, *command],
                env={
                    **plain,
                    "SPARK_HOME": str(cluster.home),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "PYSPARK_PYTHON": python,
                    "PYSPARK_DRIVER_PYTHON": python,
                    **(environment or {}),
                },
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=tmp_path,
                start_new_session=True,
                preexec_fn=localstack("spark_cluster").end_with_the_starter,  # noqa: PLW1509 - one call
            )
        started.append(Driver(process, log))
        return started[-1]

    yield start
    for driver in started:
        driver.stop()


@pytest.fixture
def take(submit: Callable[..., Driver]) -> Callable[..., Any]:
    """Runs steps of ``steps.py`` and gives their answers."""

    def run(*steps: tuple[str, Mapping[str, Any]], **options: Any) -> Any:
        more = ["--register"] if options.get("py_files") else []
        return submit(str(STEPS), json.dumps(steps), *more, **options).answers()

    return run


@dataclass(frozen=True)
class S3:
    """A real S3 service, and a proxy before it that obeys rules."""

    endpoint: str
    environment: Mapping[str, str]
    proxy: Any

    @property
    def keys(self) -> tuple[str, str]:
        """Access key and secret key."""
        return self.environment["AWS_ACCESS_KEY_ID"], self.environment["AWS_SECRET_ACCESS_KEY"]

    def store(self, url: str) -> Any:
        """The bucket, or a prefix in it, as this process reads and writes it."""
        access, secret = self.keys
        return open_store(
            url, endpoint_url=self.endpoint, access_key_id=access, secret_access_key=secret, region="us-east-1"
        )

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        """As options of the source."""
        access, secret = self.keys
        return {
            "s3.endpoint": endpoint or self.endpoint,
            "s3.region": "us-east-1",
            "s3.access-key": access,
            "s3.secret-key": secret,
        }

    def s3a(self) -> dict[str, str]:
        """In Hadoop's words, as settings of Spark."""
        access, secret = self.keys
        return {
            "spark.hadoop.fs.s3a.endpoint": self.endpoint.removeprefix("http://"),
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": access,
            "spark.hadoop.fs.s3a.secret.key": secret,
        }


@pytest.fixture(scope="session")
def s3(localstack: Callable[[str], ModuleType]) -> Iterator[S3]:
    """SeaweedFS, which refuses wrong signatures, with the bucket ``stratalog``."""
    module = localstack("fault_proxy")
    with (
        localstack("run_s3").running("seaweed", install=True) as service,
        module.FaultProxy(service.endpoint_url) as proxy,
    ):
        proxy.rule = module.Rule
        yield S3(service.endpoint_url, service.clients, proxy)


@pytest.fixture
def orders(archive_in: Callable[[str], Any], batches: Callable[..., bytes]) -> Callable[..., Any]:
    """Fills a store with two partitions of ``count`` records each, in ten objects each."""

    def fill(store: Any, count: int = 2000, builder: Any = None, first: int = 0) -> Any:
        filled = builder or archive_in("memory:unused")
        filled.store = store
        each = count // 10
        for partition in range(2):
            segments = [batches(at, each, timestamp_ms=1_372_900_000_000) for at in range(first, first + count, each)]
            filled.add("orders", partition, *segments)
        return filled

    return fill


def wait_until(condition: Callable[[], Any], what: str, driver: Driver | None = None) -> Any:
    """Look until ``condition`` holds; what it returned."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while not (found := condition()):
        assert time.monotonic() < end, f"{what} did not happen; {driver.words()[-3000:] if driver else ''}"
        time.sleep(0.02)
    return found


@pytest.fixture(scope="session")
def waiting() -> Callable[..., Any]:
    """`wait_until`."""
    return wait_until
