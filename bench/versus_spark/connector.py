"""Spark's own Kafka source: its jars, and the options that make it fast."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench.build import BUILD

__all__ = ["TUNED", "connector_jars"]

_POM = Path(__file__).resolve().parent / "pom.xml"

TUNED = {
    "kafka.max.poll.records": "10000",
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.receive.buffer.bytes": "-1",
    "minPartitions": "12",
}
"""The settings of a careful user: large fetches, the system's socket buffers, two tasks a partition."""


def connector_jars() -> list[Path]:
    """The jars, fetched with Maven on first use. Raises ``SystemExit`` without Maven."""
    folder = BUILD / "spark-kafka"
    if not any(folder.glob("spark-sql-kafka-*.jar")):
        if shutil.which("mvn") is None:
            raise SystemExit("mvn is not installed (apt-get install maven)")
        command = ["mvn", "-q", "-B", "-f", str(_POM), "dependency:copy-dependencies", "-DincludeScope=runtime"]
        done = subprocess.run([*command, f"-DoutputDirectory={folder}"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"Spark's Kafka source could not be fetched:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return sorted(folder.glob("*.jar"))
