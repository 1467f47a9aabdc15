"""A bucket of S3 whose service refuses, resets, delays and forgets to answer, for the nodes of a campaign."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from stratalog.broker.local_cluster.directories import choose_ports
from stratalog.broker.local_cluster.node_files import HOST

__all__ = ["FaultyBucket"]

_SERVERS: Final = Path(__file__).resolve().parents[2] / "localstack"
_NAME: Final = "archive"
_REGION: Final = "us-east-1"
_READY_SECONDS: Final = 60.0
_MANY: Final = 1_000_000
SPOILED: Final[Sequence[Sequence[Mapping[str, Any]]]] = (
    ({"action": "status", "status": 503, "code": "SlowDown", "count": _MANY},),
    ({"action": "reset", "count": _MANY},),
    ({"action": "delay", "seconds": 2.0, "count": _MANY},),
    (
        {"action": "drop_after_commit", "method": "PUT", "count": 3},
        {"action": "fail_after_commit", "method": "PUT", "status": 500, "code": "InternalError", "count": 3},
        {"action": "truncate", "method": "GET", "count": 3},
        {"action": "corrupt", "method": "GET", "path": r"\\.seg", "count": 3},
    ),
)
"""Rules of ``localstack/fault_proxy.py``; each of them for a while."""


class FaultyBucket:
    """A service of its own, and a proxy before it that the nodes reach it by."""

    url: Final = f"s3://{_NAME}/campaign"

    def __init__(self, folder: Path) -> None:
        """Start both. Raises `TimeoutError` if the service does not answer within a minute."""
        folder.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("AWS_ACCESS_KEY_ID", "test")
        os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "test")
        port, proxy_port = choose_ports([0, 0])
        self._log = (folder / "bucket.log").open("w")
        self._direct, self._proxy = f"http://{HOST}:{port}", f"http://{HOST}:{proxy_port}"
        self._children = [
            self._start("atomic_moto.py", "-H", HOST, "-p", str(port)),
            self._start("fault_proxy.py", self._direct, "--port", str(proxy_port)),
        ]
        self._await_bucket()

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the nodes."""
        return {
            "stratalog.bucket.url": self.url,
            "stratalog.bucket.endpoint.url": self._proxy,
            "stratalog.bucket.region": _REGION,
        }

    @property
    def endpoint(self) -> str:
        """The address of the service itself, which has no faults."""
        return self._direct

    def spoil(self, dice: random.Random) -> None:
        """Let the service misbehave in one way from now on."""
        self._rule(dice.choice(SPOILED))

    def mend(self) -> None:
        """Let all requests pass."""
        self._rule(())

    def close(self) -> None:
        """End both."""
        for child in self._children:
            child.kill()
            child.wait()
        self._log.close()

    def _rule(self, rules: Sequence[Mapping[str, Any]]) -> None:
        data = json.dumps(list(rules)).encode()
        with urllib.request.urlopen(f"{self._proxy}/_fault", data, timeout=10) as answer:
            answer.read()

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(_SERVERS / program), *arguments]
        return subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def _await_bucket(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            try:
                boto3.client("s3", endpoint_url=self._proxy, region_name=_REGION).create_bucket(Bucket=_NAME)
            except (BotoCoreError, ClientError) as error:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the store at {self._proxy} does not answer: {error}") from error
                time.sleep(0.5)
            else:
                return
