"""Kafka's programs one after the other in one Java process, which takes a tenth of the time that a process each does."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

from tests.java.conftest import Ended, KafkaPrograms

RUNNER = Path(__file__).parent / "RunPrograms.java"
SECONDS_MAX = 180


class WarmPrograms(KafkaPrograms):
    """`KafkaPrograms` whose ``run`` starts no process, unless the program reads input."""

    def __init__(self, jars: Path) -> None:
        super().__init__(jars)
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, main: str, *arguments: str, stdin: str = "") -> Ended:
        """Run a program of ``org.apache.kafka.tools`` (or with its full name) to its end."""
        if stdin:
            return super().run(main, *arguments, stdin=stdin)
        if self._process is None:
            command = self.command(str(RUNNER))
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process = self._process
        timer = threading.Timer(SECONDS_MAX, process.kill)
        timer.start()
        try:
            process.stdin.write("\x1f".join((self.full_name(main), *arguments)).encode() + b"\n")
            process.stdin.flush()
            code, out, err = map(int, process.stdout.readline().split())
            return Ended(code, process.stdout.read(out).decode(), process.stdout.read(err).decode())
        except (OSError, ValueError) as error:
            self.close()
            raise AssertionError(f"{main} {arguments}: no answer within {SECONDS_MAX} s") from error
        finally:
            timer.cancel()

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
