"""``kafka_load`` at work on a server: options in, figures and the server's CPU time out."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Literal

from bench.build import build
from bench.servers import Server

__all__ = ["Load", "LoadResult"]


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Result of one run of the load generator, over the time it measured."""

    seconds: float
    requests: int
    bytes: int
    p50_us: float
    p99_us: float
    max_us: float
    client_cores: float
    batch_bytes: int
    batch_records: int
    answered: int
    server_cpu_seconds: float

    @classmethod
    def parse(cls, line: str, *, server_cpu_seconds: float) -> LoadResult:
        """The last output of the program, with other measurements."""
        return cls(**json.loads(line), server_cpu_seconds=server_cpu_seconds)

    @property
    def requests_per_second(self) -> float:
        """Answers a second."""
        return self.requests / self.seconds

    @property
    def megabytes_per_second(self) -> float:
        """10**6 bytes of record batches a second."""
        return self.bytes / self.seconds / 1e6

    @property
    def cpu_us_per_request(self) -> float:
        """Microseconds of the server's CPU time for one request."""
        return self.server_cpu_seconds / self.requests * 1e6

    @property
    def records_answered(self) -> int:
        """Records in all answered requests, warm-up and end included."""
        return self.answered * self.batch_records


@dataclass(frozen=True, slots=True)
class Load:
    """One way to load a server; see ``bench/c/kafka_load.c``. ``requests_per_second`` 0 is as many as possible."""

    mode: Literal["produce", "fetch"]
    batch_bytes: int
    connections: int = 1
    depth: int = 1
    partitions: int = 1
    acks: int = 1
    seconds: float = 2.0
    warm_seconds: float = 0.3
    requests_per_second: float = 0.0
    requests_max: int = 0
    batches: int = 256

    def command(self, port: int, topic: str) -> list[str]:
        """The command line."""
        values = {
            "p": port,
            "m": self.mode,
            "t": topic,
            "c": self.connections,
            "d": self.depth,
            "b": self.batch_bytes,
            "n": self.partitions,
            "a": self.acks,
            "s": self.seconds,
            "w": self.warm_seconds,
            "r": self.requests_per_second,
            "x": self.requests_max,
            "k": self.batches,
        }
        return [str(build("kafka_load")), *(word for key, value in values.items() for word in (f"-{key}", str(value)))]

    def run(self, server: Server, topic: str) -> LoadResult:
        """Load ``server``; every answer is checked. Raises ``SystemExit`` for a wrong answer or one that is missing."""
        with subprocess.Popen(self.command(server.port, topic), stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            if process.stdout.readline() == "MEASURE\n":
                before = server.cpu_seconds()
                if process.stdout.readline() == "END\n":
                    used = server.cpu_seconds() - before
                    line = process.stdout.readline()
                    if process.wait() == 0:
                        return LoadResult.parse(line, server_cpu_seconds=used)
        raise SystemExit(f"{' '.join(self.command(server.port, topic))} failed with exit code {process.wait()}")
