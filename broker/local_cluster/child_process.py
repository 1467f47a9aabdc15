"""A node as a child process: its lines and its end are handed to a callback, and it does not outlive its parent."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Final

from stratalog.broker.local_cluster.supervision import Ended, Wrote

__all__ = ["ChildProcess", "serve_command"]

LINE_BYTES_MAX: Final = 64 << 10
"""Longer lines are handed on in parts."""
_PIPES_SECONDS: Final = 1.0
"""The wait for the last lines of a process that has ended; a worker of it may hold its pipes for a moment more."""

_TETHER: Final = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15)  # PR_SET_PDEATHSIG, SIGTERM
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent has ended")
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Runs before the node in its process: the kernel sends SIGTERM when the thread ends that started it."""

_COMMAND: Final = """
from importlib.metadata import entry_points
(command,) = entry_points(group="console_scripts", name="stratalog")
command.load()()
"""
"""The command line of this installation, by its entry point: this room knows no command."""

_starter: Final = ThreadPoolExecutor(1, thread_name_prefix="starts-nodes")
"""The thread that starts all children. It lives as long as this process, as the caller's may not."""


def serve_command(properties_path: str, *arguments: str) -> list[str]:
    """The command that runs a node from its properties file."""
    return [sys.executable, "-c", _COMMAND, "serve", "--config", properties_path, *arguments]


class ChildProcess:
    """One running process. ``on_event`` is called on threads: `Wrote` for each line, `Ended` last of all.

    It is in a session of its own: a Ctrl-C on the terminal reaches only its parent.
    """

    def __init__(
        self,
        node_id: int,
        command: Sequence[str],
        on_event: Callable[[Wrote | Ended], object],
        *,
        environment: Mapping[str, str],
    ) -> None:
        self.node_id = node_id
        self._on_event = on_event
        tethered = [sys.executable, "-I", "-S", "-c", _TETHER, str(os.getpid()), *command]
        self._process = _starter.submit(_start, tethered, environment).result()
        self.pid = self._process.pid
        self._over = threading.Event()
        threading.Thread(target=self._watch, name=f"node-{node_id}", daemon=True).start()

    def terminate(self) -> None:
        """Ask it to stop in order; nothing happens to one that has ended."""
        self._process.terminate()

    def kill(self) -> None:
        """End it at once, by SIGKILL."""
        self._process.kill()

    def wait(self, seconds: float) -> int | None:
        """Its exit code, or minus the number of a signal, when its last line was handed on; None if that takes longer."""
        return self._process.returncode if self._over.wait(seconds) else None

    def _watch(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        readers = [
            threading.Thread(target=self._read, args=(stream, stream is self._process.stdout), daemon=True)
            for stream in (self._process.stdout, self._process.stderr)
        ]
        for reader in readers:
            reader.start()
        code = self._process.wait()
        for reader in readers:
            reader.join(_PIPES_SECONDS)
        self._over.set()
        self._on_event(Ended(self.node_id, code))

    def _read(self, stream: IO[bytes], on_stdout: bool) -> None:
        with stream:
            while line := stream.readline(LINE_BYTES_MAX):
                text = line.rstrip(b"\r\n").decode("utf-8", "replace")
                self._on_event(Wrote(self.node_id, text, on_stdout))


def _start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own program
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        start_new_session=True,
    )
