"""A service's process: started on free ports, waited for, stopped with its data."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from s3_servers.recipe import ACCESS_KEY, REGION, SECRET_KEY, Recipe, Service, StartError

START_TIMEOUT_S = 90.0
_GRPC_PORT_DISTANCE = 10_000


@dataclass(slots=True)
class Running:
    """A started service; `stop` ends it and throws its data away."""

    service: Service
    _closing: ExitStack

    def stop(self) -> None:
        """End the process and remove its directory; a second call does nothing."""
        self._closing.close()


def start(recipe: Recipe, *, bucket: str = "stratalog", port: int = 0, install: bool = False) -> Running:
    """Start a service with an empty bucket on ``port`` and its neighbours (0: free ones). Raises `StartError`."""
    program = recipe.program(install=install)
    port = port or free_ports(recipe.port_count)
    with ExitStack() as closing:
        made = tempfile.TemporaryDirectory(prefix=f"stratalog-{recipe.name}-", ignore_cleanup_errors=True)
        directory = Path(closing.enter_context(made))
        data = directory / "data"
        data.mkdir()
        plan = recipe.plan(program, port, data)
        log_path = directory / "service.log"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                plan.command,
                env={**os.environ, **plan.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=directory,
            )
        closing.callback(_end, process)
        service = Service(recipe.name, recipe.version, f"http://127.0.0.1:{port}", bucket, process.pid)
        _wait_and_make_bucket(service, process, log_path)
        return Running(service, closing.pop_all())


def free_ports(count: int) -> int:
    """Return the first of ``count`` neighbouring free ports; for more than one also those 10 000 above (gRPC).

    They lie below those that systems give to outgoing connections, one of which could take a port before a slow
    service does.
    """
    for _ in range(100):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = 20_000 + int(probe.getsockname()[1]) % 12_000
        wanted = [first + step for step in range(count)]
        if count > 1:
            wanted += [port + _GRPC_PORT_DISTANCE for port in wanted]
        if all(is_free(port) for port in wanted):
            return first
    raise StartError(f"found no {count} neighbouring free ports")


def is_free(port: int) -> bool:
    """Whether nobody listens on ``port`` of this machine's loopback."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    # SeaweedFS takes twelve seconds over SIGTERM, and the data is thrown away anyhow.
    process.kill()
    process.wait()


def _wait_and_make_bucket(service: Service, process: subprocess.Popen[bytes], log_path: Path) -> None:
    import boto3.session  # noqa: PLC0415 - slow, and the message of a missing program should come first
    from botocore.config import Config  # noqa: PLC0415 - same
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - same

    client = boto3.session.Session().client(
        "s3",
        endpoint_url=service.endpoint_url,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name=REGION,
        config=Config(
            s3={"addressing_style": "path"},
            connect_timeout=1,
            read_timeout=10,
            retries={"mode": "standard", "total_max_attempts": 1},
        ),
    )
    give_up = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            names = {entry["Name"] for entry in client.list_buckets()["Buckets"]}
            if service.bucket not in names:
                client.create_bucket(Bucket=service.bucket)
            return
        except (BotoCoreError, ClientError) as error:
            if process.poll() is not None or time.monotonic() > give_up:
                tail = log_path.read_text(errors="replace")[-2000:]
                raise StartError(f"{service.kind} does not answer ({error}); the end of its log:\n{tail}") from error
        time.sleep(0.05)
