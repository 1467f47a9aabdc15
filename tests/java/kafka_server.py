"""Kafka itself as a server in a process of its own, with a small heap."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

START_SECONDS_MAX = 60


class KafkaServer:
    """Kafka as a server on a directory; ``log`` is everything it said."""

    def __init__(self, command: list[str], directory: Path, address: str) -> None:
        self.log = directory / "kafka.log"
        self.address = address
        with self.log.open("w") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def wait(self) -> KafkaServer:
        """Wait until it serves."""
        end = time.monotonic() + START_SECONDS_MAX
        while "Kafka Server started" not in self.said():
            assert self._process.poll() is None, self.said()[-4000:]
            assert time.monotonic() < end, self.said()[-4000:]
            time.sleep(0.1)
        return self

    def said(self) -> str:
        """Its log so far."""
        return self.log.read_text()

    def stop(self) -> None:
        """Stop in order; a second call does nothing."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(START_SECONDS_MAX)


def free_port() -> int:
    """A port on which nothing listens now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
