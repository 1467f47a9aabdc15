"""A service's process: started on free ports, waited for, stopped with its data."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from servers.errors import NotReady, StartError
from servers.recipe import Recipe, Service

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
        url = f"http://127.0.0.1:{port}"
        service = Service(recipe.name, recipe.version, url, bucket, process.pid, recipe.clients(url), recipe.scheme)
        _wait_and_make_bucket(recipe, service, process, log_path)
        return Running(service, closing.pop_all())


def stop_signal() -> threading.Event:
    """An event that SIGINT and SIGTERM set from now on, in place of ending the process.

    A program asks for it before it says that it serves: a caller that hears that may end it at once.
    """
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def free_ports(count: int) -> int:
    """Return the first of ``count`` neighbouring free ports; for more than one also those 10 000 above (gRPC).

    They lie below those that systems give to outgoing connections, and such a connection could take a port before a slow
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
    """Whether no process listens on ``port`` of this machine's loopback."""
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


def _wait_and_make_bucket(recipe: Recipe, service: Service, process: subprocess.Popen[bytes], log_path: Path) -> None:
    give_up = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            recipe.make_bucket(service.endpoint_url, service.bucket)
            return
        except NotReady as error:
            if process.poll() is not None or time.monotonic() > give_up:
                tail = log_path.read_text(errors="replace")[-2000:]
                raise StartError(f"{service.kind} does not answer ({error}); the end of its log:\n{tail}") from error
        time.sleep(0.05)
