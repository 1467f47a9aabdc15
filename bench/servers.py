"""The servers under measurement: our broker, and the C program that does the least for the same bytes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.build import broker_environment, build
from bench.processes import cpu_seconds_of_tree, pss_megabytes_of_tree
from stratalog.client.admin import alter_topic_configs, create_topic, delete_topics
from stratalog.client.client import Client
from stratalog.wire.topic import TopicPartition

__all__ = [
    "KAFKA_FLUSH",
    "LOCAL_START",
    "LOG_END",
    "REMOTE_LAST",
    "BrokerServer",
    "LimitServer",
    "Server",
    "parse_metric",
]

KAFKA_FLUSH = {"log.flush.interval.messages": "9223372036854775807"}
"""Kafka's default: an append is answered from the page cache. The C program does not sync either."""

LOG_END, LOCAL_START, REMOTE_LAST = -1, -4, -5
"""Which offset to ask for (KIP-405, KIP-1005)."""


@dataclass
class Server:
    """A started server; leaving the context stops it."""

    process: subprocess.Popen[str]
    port: int

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def cpu_seconds(self) -> float:
        """The CPU time it has used so far, with its workers."""
        return cpu_seconds_of_tree(self.pid)

    def pss_megabytes(self) -> float:
        """Its memory now, with its workers, in 10**6 bytes."""
        return pss_megabytes_of_tree(self.pid)

    def stop(self) -> None:
        """End it and wait for the end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class LimitServer(Server):
    """``kafka_limit``: one topic, one partition, no sync."""

    @classmethod
    def start(cls, directory: Path, topic: str) -> LimitServer:
        """Start it; its file is in ``directory`` and gone when it ends."""
        directory.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen([build("kafka_limit"), directory, topic], stdout=subprocess.PIPE, text=True)
        return cls(process, int(_ready(process)["kafka"].rsplit(":", 1)[1]))


@dataclass
class BrokerServer(Server):
    """``stratalog serve`` with its own data directory and bucket."""

    http: str
    bucket: str
    data: Path
    ready_seconds: float

    @classmethod
    def start(
        cls, data: Path, settings: Mapping[str, str] | None = None, *, bucket: Path | str | None = None
    ) -> BrokerServer:
        """Start on free ports and wait until it says that it is ready; ``bucket`` is a folder or a URL."""
        data.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "stratalog", "serve", "--data", str(data)]
        folder = f"file://{bucket or data.with_name(data.name + '-bucket')}"
        command += ["--bucket", bucket if isinstance(bucket, str) else folder]
        command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        for name, value in (settings or {}).items():
            command += ["--set", f"{name}={value}"]
        # A benchmark that needs credentials has a server of ours, which takes any.
        environment = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", **broker_environment()}
        started = time.monotonic()
        with data.with_name(data.name + ".log").open("a") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
        ready = _ready(process)
        port = int(ready["kafka"].rsplit(":", 1)[1])
        return cls(process, port, ready["http"], ready["bucket"], data, time.monotonic() - started)

    def client(self) -> Client:
        """A client of it, to be closed by the caller."""
        return Client(f"127.0.0.1:{self.port}", timeout_seconds=120.0)

    def create_topic(self, name: str, partition_count: int = 1, **configs: str) -> None:
        """A topic; ``flush_messages="1"`` sets ``flush.messages``."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        with self.client() as client:
            create_topic(client, name, partition_count=partition_count, configs=settings)

    def alter_topic(self, name: str, **configs: str) -> None:
        """Change settings of a topic, named as for `create_topic`."""
        with self.client() as client:
            alter_topic_configs(client, name, set_to={key.replace("_", "."): value for key, value in configs.items()})

    def delete_topic(self, name: str) -> None:
        """Delete it; its files go after ``file.delete.delay.ms``."""
        with self.client() as client:
            delete_topics(client, [name])

    def offsets(self, topic: str, partition_count: int, which: int) -> list[int]:
        """An offset of each partition: -1 log end, -2 log start, -4 local log start, -5 last one in the bucket."""
        partitions = [TopicPartition(topic, number) for number in range(partition_count)]
        with self.client() as client:
            client.refresh([topic])
            found = client.list_offsets(dict.fromkeys(partitions, which))
        return [found[one].offset for one in partitions]

    def metric(self, name: str) -> float:
        """The sum of a figure of ``/metrics`` over its labels."""
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=30) as answer:
            return parse_metric(answer.read().decode(), name)

    def record_count(self, topic: str, partition_count: int = 1) -> int:
        """The sum of the log end offsets of a topic."""
        return sum(self.offsets(topic, partition_count, LOG_END))


def parse_metric(text: str, name: str) -> float:
    """The sum over the labels of one figure of a Prometheus text exposition; 0 if it is not there."""
    return sum(
        float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.split(" ", 1)[0].split("{", 1)[0] == name
    )


def _ready(process: subprocess.Popen[str]) -> dict[str, str]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("ready "):
        process.kill()
        process.wait()
        raise SystemExit(f"{process.args!r} did not get ready: {line!r}")
    return dict(word.split("=", 1) for word in line.split()[1:])
