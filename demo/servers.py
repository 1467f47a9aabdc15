"""The processes of the demo: a broker, and an S3 server when the archive is to live behind HTTP."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Broker", "s3_server"]

_METRIC = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")


@dataclass
class Broker:
    """A running ``stratalog serve``."""

    process: subprocess.Popen[str]
    kafka: str
    http: str
    bucket: str
    log_path: Path

    @classmethod
    def start(cls, data: Path, bucket: str, settings: dict[str, object]) -> Broker:
        """Start on free ports and wait for the line that says it is ready."""
        config = data / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        log_path = data / "broker.log"
        command = [sys.executable, "-m", "stratalog", "serve", "--config", str(config), "--data", str(data / "broker")]
        command += ["--bucket", bucket, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        with log_path.open("a") as stderr:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        assert process.stdout is not None
        line = process.stdout.readline()
        ready = dict(word.split("=", 1) for word in line.split()[1:] if "=" in word)
        if not line.startswith("ready "):
            process.kill()
            raise SystemExit(f"the broker did not start; its log is {log_path}:\n{log_path.read_text()[-2000:]}")
        return cls(process, ready["kafka"], ready["http"], ready["bucket"], log_path)

    def metrics(self) -> dict[str, float]:
        """Every metric by name, summed over its labels, plus ``name{label="value"}`` one by one."""
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        values: dict[str, float] = {}
        for line in text.splitlines():
            if match := _METRIC.match(line):
                name, labels, number = match.groups()
                values[name] = values.get(name, 0.0) + float(number)
                if labels:
                    values[f"{name}{{{labels}}}"] = float(number)
        return values

    def stop(self) -> float:
        """Stop cleanly; the seconds it took."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=30)
        if code != 0:
            raise SystemExit(f"the broker ended with exit code {code}; its log is {self.log_path}")
        return time.monotonic() - started


@contextmanager
def s3_server(data: Path) -> Iterator[str]:
    """The endpoint of an S3 server: ``S3_ENDPOINT`` if that is set, else moto's, started here and stopped again."""
    given = os.environ.get("S3_ENDPOINT")
    if given:
        yield given
        return
    launcher = Path(__file__).resolve().parents[1] / "localstack" / "run_s3.py"
    with (data / "s3.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, str(launcher), "moto", "--bucket", "stratalog-demo"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if match := re.search(r"AWS_ENDPOINT_URL(?:_S3)?=(\S+)", line):
                yield match.group(1).strip("'\"")
                return
        raise SystemExit(f"the S3 server did not start; its log is {data / 's3.log'}")
    finally:
        process.terminate()
        process.wait(timeout=30)
