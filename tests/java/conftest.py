"""Kafka's own programs from Maven, and brokers in processes of their own for them to judge."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.java.mixed_nodes import MixedCluster

HERE = Path(__file__).parent
BUILD = HERE.parent.parent / "build"
JAVA_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
JAVA_VERSION_MIN = 17
WAIT_SECONDS = 180
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# DumpLogSegments says these on stdout or stderr and still ends with exit code 0.
FAULT = re.compile(
    r"Mismatches in|Found timestamp mismatch|Found out of order|indexed offsets are not found|Non-consecutive|"
    r"Ignoring unknown|Snapshot (?:is corrupt|contained|failed)|isvalid: false|invalid bytes at the end|"
    r"Error at \d+, skipping|Could not decode|Exception"
)
# Since its port to Java the tool compares the first offset of every file with -1, in Kafka's own directories too.
FIRST_OFFSET = re.compile(
    r"Non-consecutive offsets in (?P<path>\S*?(?P<base>\d{20})\.log)\n  -1 is followed by (?P<first>\d+)\n"
)
BATCH = re.compile(
    r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* compresscodec: (\w+) crc: \d+ isvalid: true$", re.MULTILINE
)


@dataclass(frozen=True)
class Ended:
    """A program that has ended."""

    code: int
    out: str
    err: str

    def ok(self) -> str:
        """Its output, if it ended well."""
        assert self.code == 0, f"exit code {self.code}\n{self.out[-2000:]}\n{self.err[-4000:]}"
        return self.out

    def refused(self) -> str:
        """Its errors, if it ended badly."""
        assert self.code != 0, self.out[-2000:]
        return self.out + self.err


@dataclass(frozen=True)
class Dump:
    """Output of DumpLogSegments for some files."""

    text: str
    faults: list[str]

    @property
    def batches(self) -> list[tuple[int, int, int, str]]:
        """First offset, last offset, record count and codec of every valid batch."""
        return [(int(first), int(last), int(count), codec) for first, last, count, codec in BATCH.findall(self.text)]

    def clean(self) -> Dump:
        """Itself, if the tool found nothing wrong."""
        assert not self.faults, "\n".join(self.faults[:20])
        return self


class Running:
    """A program in the background."""

    def __init__(self, directory: Path, command: Sequence[str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        number = len(list(directory.glob("*.out")))
        self._out, self._err = directory / f"{number}.out", directory / f"{number}.err"
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=directory)

    @property
    def said(self) -> str:
        """Its output until now."""
        return self._out.read_text()

    @property
    def complained(self) -> str:
        """Its output on stderr until now."""
        return self._err.read_text()

    @property
    def events(self) -> list[dict]:
        """The whole lines of JSON that it has printed until now."""
        whole = self.said.rpartition("\n")[0].splitlines()
        return [json.loads(line) for line in whole if line.startswith("{")]

    def alive(self) -> bool:
        """Whether it still runs; what it said is shown if it does not."""
        assert self.process.poll() is None, f"it ended: {self.process.returncode}\n{self.said[-2000:]}{self.complained}"
        return True

    def kill(self) -> None:
        """End it without a chance to say good-bye."""
        self.process.kill()
        self.process.wait(WAIT_SECONDS)

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        self.process.terminate()
        self.process.wait(WAIT_SECONDS)

    def end(self, timeout_seconds: float = 2 * WAIT_SECONDS) -> Ended:
        """Wait until it ends by itself."""
        return Ended(self.process.wait(timeout_seconds), self.said, self.complained)


class KafkaPrograms:
    """Runs Kafka's programs by their main classes, one at a time."""

    def __init__(self, jars: Path) -> None:
        self._command = [
            "java", *JAVA_OPTIONS, f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}", "-cp", f"{jars}/*",
        ]  # fmt: skip

    def command(self, main: str, *arguments: str) -> list[str]:
        """The command line of a program."""
        return [*self._command, main, *arguments]

    def run(self, main: str, *arguments: str, stdin: str = "") -> Ended:
        """Run a program of ``org.apache.kafka.tools`` (or with its full name) to its end."""
        done = subprocess.run(
            self.command(self.full_name(main), *arguments), input=stdin, capture_output=True, text=True, timeout=2 * WAIT_SECONDS, check=False
        )  # fmt: skip
        return Ended(done.returncode, done.stdout, done.stderr)

    def start(self, directory: Path, main: str, *arguments: str) -> Running:
        """Start a program that goes on by itself; what it prints goes to files of this directory."""
        return Running(directory, self.command(self.full_name(main), *arguments))

    @staticmethod
    def full_name(main: str) -> str:
        """The class of a program, which is one of ``org.apache.kafka.tools`` unless its name says more."""
        return main if main.startswith(("kafka.", "org.")) else f"org.apache.kafka.tools.{main}"

    def dump(self, files: Sequence[Path], *options: str) -> Dump:
        """Let DumpLogSegments read these files and gather everything it finds wrong with them."""
        assert files
        said = self.run("DumpLogSegments", *options, "--files", ",".join(str(path) for path in files))
        text = said.out
        complaints = FIRST_OFFSET.sub(
            lambda found: "" if int(found["base"]) == int(found["first"]) else found[0], said.err
        )
        faults = [f"exit code {said.code}"] if said.code else []
        faults += [line for line in text.splitlines() if FAULT.search(line)]
        return Dump(text, faults + [line for line in complaints.splitlines() if line.strip()])


class Served:
    """One of our brokers in a process of its own; ``kill`` and ``stop`` leave its files for another."""

    def __init__(self, directory: Path, *settings: str) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.bucket = directory / "bucket"
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None
        self.address = ""

    def start(self) -> Served:
        """Start and wait for the line that says it is ready; once more at the address that it had."""
        own = any(setting.startswith("log.dirs=") for setting in self._settings)
        data = [] if own else ["--data", str(self.data)]
        command = [sys.executable, "-m", "stratalog", "serve", *data, "--bucket"]
        command += [f"file://{self.bucket}", "--listen", self.address or "127.0.0.1:0", "--http", "127.0.0.1:0"]
        for setting in self._settings:
            command += ["--set", setting]
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "stderr").open("a") as stderr:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        ready = re.match(r"ready kafka=(\S+)", self._process.stdout.readline())
        assert ready, (self.directory / "stderr").read_text()
        self.address = ready[1]
        return self

    def stop(self, with_signal: int = signal.SIGTERM) -> None:
        """Stop in order, or with another signal; a second call does nothing."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(with_signal)
            process.communicate(timeout=WAIT_SECONDS)

    def kill(self) -> None:
        """End it as the kernel ends one that took too much memory."""
        self.stop(signal.SIGKILL)

    def files(self, *suffixes: str, partition: str = "*") -> list[Path]:
        """The files of partitions with these suffixes, in order."""
        return sorted(path for path in self.data.glob(f"{partition}/*") if path.suffix in suffixes)


Row = tuple[int, bytes | None, bytes | None, int]
Partitioned = tuple[str, int]


class Clients:
    """librdkafka, to load a broker and to read it back."""

    @staticmethod
    def producer(address: str, codec: str = "none", **options: object) -> Producer:
        """An idempotent producer that does not talk on stderr."""
        named = {name.replace("_", "."): value for name, value in options.items()}
        return Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "compression.type": codec,
                "log_level": 0,
                **named,
            }
        )

    @classmethod
    def load(
        cls, address: str, codec: str, records: Iterable[tuple[str, int, bytes, int]], **options: object
    ) -> dict[Partitioned, list[Row]]:
        """Produce (topic, partition, value, timestamp); what was acknowledged of each partition, in order."""
        acknowledged: dict[Partitioned, list[Row]] = {}

        def delivered(error, message) -> None:
            assert error is None, error
            row = (message.offset(), message.key(), message.value(), message.timestamp()[1])
            acknowledged.setdefault((message.topic(), message.partition()), []).append(row)

        producer = cls.producer(address, codec, **options)
        for topic, partition, value, timestamp_ms in records:
            producer.produce(topic, value, b"k", partition, on_delivery=delivered, timestamp=timestamp_ms)
            producer.poll(0)
        assert producer.flush(WAIT_SECONDS) == 0
        return acknowledged

    @staticmethod
    def read(address: str, topic: str, partition: int = 0) -> list[Row]:
        """Every record of a partition, from its start to its end."""
        consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "none",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(topic, partition, 0)])
        rows: list[Row] = []
        while True:
            message = consumer.poll(WAIT_SECONDS)
            assert message is not None, f"{topic}-{partition}: nothing came after {len(rows)} records"
            if message.error():
                consumer.close()
                return rows
            rows.append((message.offset(), message.key(), message.value(), message.timestamp()[1]))


def java_version() -> int:
    """The major version of the ``java`` on the path; 0 if there is none."""
    if shutil.which("java") is None:
        return 0
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0


@pytest.fixture(scope="session")
def jars() -> Path:
    """Kafka's jars; they are fetched once for each content of pom.xml and kept under build/."""
    if java_version() < JAVA_VERSION_MIN:
        pytest.skip(f"Kafka's programs need java {JAVA_VERSION_MIN} or newer on the PATH")
    pom = HERE / "pom.xml"
    jars = BUILD / f"kafka-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if not jars.is_dir():
        if shutil.which("mvn") is None:
            pytest.skip("Kafka's programs are fetched by Maven, and there is no mvn on the PATH")
        partial = jars.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        fetched = subprocess.run(
            ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={partial}"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert fetched.returncode == 0, f"mvn could not fetch Kafka's jars:\n{fetched.stdout}\n{fetched.stderr}"
        partial.rename(jars)
    return jars


@pytest.fixture(scope="session")
def kafka(jars) -> KafkaPrograms:
    """Kafka's programs, each in a process of its own."""
    return KafkaPrograms(jars)


@pytest.fixture(scope="session")
def tools(jars) -> Iterator[KafkaPrograms]:
    """The same programs in one process, for tests that run many of them."""
    from tests.java.warm_programs import WarmPrograms  # it needs the classes above

    programs = WarmPrograms(jars)
    yield programs
    programs.close()


@pytest.fixture(scope="session")
def clients() -> Clients:
    return Clients()


@pytest.fixture(scope="module")
def serve(tmp_path_factory) -> Iterator[Callable[..., Served]]:
    """Starts brokers with settings like ``"log.segment.bytes=1048576"``; all are gone after the module."""
    brokers: list[Served] = []

    def start(*settings: str) -> Served:
        brokers.append(Served(tmp_path_factory.mktemp("broker"), *settings))
        return brokers[-1].start()

    yield start
    for broker in brokers:
        broker.kill()


@pytest.fixture
def background(kafka, tmp_path) -> Iterator[Callable[..., Running]]:
    """Starts programs that go on by themselves; all are gone after the test."""
    programs: list[Running] = []

    def start(main: str, *arguments: str) -> Running:
        programs.append(kafka.start(tmp_path / "programs", main, *arguments))
        return programs[-1]

    yield start
    for program in programs:
        program.kill()


@pytest.fixture
def cluster(tools, tmp_path) -> Iterator[Callable[..., MixedCluster]]:
    """Makes clusters with settings for all nodes; their processes are gone after the test."""
    made: list[MixedCluster] = []

    def new(more: str = "") -> MixedCluster:
        made.append(MixedCluster(tools, tmp_path, more))
        return made[-1]

    yield new
    for each in made:
        each.kill()


@pytest.fixture(scope="session")
def until() -> Callable[[Callable[[], object]], object]:
    """Asks again until the answer is true, and returns it."""

    def wait(ask: Callable[[], object]) -> object:
        end = time.monotonic() + WAIT_SECONDS
        while not (answer := ask()):
            assert time.monotonic() < end, "what was waited for did not happen"
            time.sleep(0.05)
        return answer

    return wait
