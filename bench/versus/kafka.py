"""Apache Kafka as its users start it: one node, broker and controller in one process, a heap of 1 GiB."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.build import BUILD, cubic_environment
from bench.servers import BrokerServer
from stratalog.client.client import Client
from stratalog.wire.errors import Retriable
from stratalog.wire.messages.metadata import MetadataRequest

__all__ = ["CLUSTER_ID", "HEAP", "KafkaServer", "free_port", "java", "kafka_jars"]

HERE = Path(__file__).resolve().parent
_READY_SECONDS = 120
HEAP = ("-Xmx1g", "-Xms1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def kafka_jars() -> Path:
    """The folder with Kafka's jars, fetched with Maven on first use. Raises ``SystemExit`` without Maven or Java."""
    jars = BUILD / "kafka"
    if any(jars.glob("kafka_2.13-*.jar")) and any(jars.glob("kafka-storage-*-test.jar")):
        return jars
    for program in ("mvn", "java"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is not installed (apt-get install maven openjdk-17-jre-headless)")
    command = ["mvn", "-q", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    done = subprocess.run([*command, f"-DoutputDirectory={jars}"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"Kafka could not be fetched:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return jars


def java(*arguments: str, heap: tuple[str, ...] = ("-Xmx512m",)) -> list[str]:
    """The command line of a Java program with Kafka's classes."""
    return [
        "java",
        *heap,
        f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}",
        "-cp",
        f"{kafka_jars()}/*",
        *arguments,
    ]


def free_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass
class KafkaServer(BrokerServer):
    """A started Kafka; what clients ask of it is asked by our own client."""

    @classmethod
    def start(
        cls, data: Path, settings: Mapping[str, str] | None = None, *, bucket: Path | str | None = None
    ) -> KafkaServer:
        """Start on free ports, formatting ``data`` first if it is new, and wait for an answer to Metadata."""
        if bucket is not None:
            raise ValueError("this Kafka has no remote storage")
        properties = data.with_name(data.name + ".properties")
        if data.exists():  # its quorum is known by the port of the first start
            port = int(properties.read_text().split("listeners=PLAINTEXT://127.0.0.1:", 1)[1].split(",", 1)[0])
        else:
            port = free_port()
            properties.write_text(_properties(data, port, free_port(), settings or {}))
            data.mkdir(parents=True)
            storage = java("kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER_ID, "-c", str(properties))
            subprocess.run(storage, check=True, capture_output=True)
        started = time.monotonic()
        with data.with_name(data.name + ".log").open("a") as log:
            process = subprocess.Popen(
                java("kafka.Kafka", str(properties), heap=HEAP),
                stdout=log,
                stderr=log,
                text=True,
                env=cubic_environment(),
            )
        server = cls(process, port, "", "", data, 0.0)
        server._wait_until_ready()
        server.ready_seconds = time.monotonic() - started
        return server

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with Client(f"127.0.0.1:{self.port}", timeout_seconds=5) as client:
                    if client.call(MetadataRequest(topics=[])).brokers:
                        return
            except (Retriable, OSError):
                pass  # not listening yet, or not registered: asked again until the deadline
            time.sleep(0.02)
        self.process.kill()
        raise SystemExit(f"Kafka did not get ready; its log is {self.data.with_name(self.data.name + '.log')}")


def _properties(data: Path, port: int, controller_port: int, settings: Mapping[str, str]) -> str:
    values = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "log.dirs": str(data),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "log.segment.delete.delay.ms": "200",
        **settings,
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())
