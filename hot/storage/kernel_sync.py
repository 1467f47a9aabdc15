"""``fdatasync`` by the kernel's own workers: started with a call that does not wait, reported on a descriptor.

A thread for each sync costs a wake-up and two hand-overs of the interpreter lock, which with small appends is more
than what is left of the sync itself. ``io_submit(2)`` with ``IOCB_CMD_FDSYNC`` (Linux 4.18) needs no thread: the
kernel runs ``fdatasync`` on as many files as it was given, side by side, and an ``eventfd(2)`` tells an event loop
that results are there, one for each file, as from ``fdatasync(2)`` itself. Where this does not work
`KernelSync.open` says so, and threads do it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import select
import threading
from collections import deque
from contextlib import suppress
from typing import Final, Generic, NamedTuple, TypeVar, cast

__all__ = ["IN_FLIGHT_MAX", "KernelSync"]

Token = TypeVar("Token")

IN_FLIGHT_MAX: Final = 64
"""Files that are synced at a time; the others wait for a place."""

_FDSYNC: Final = 3
_TELLS_DESCRIPTOR: Final = 1
_PROBE_MS: Final = 5000


class _Calls(NamedTuple):
    setup: int
    destroy: int
    submit: int
    getevents: int


_GENERIC: Final = _Calls(0, 1, 2, 4)
_CALLS: Final = {"x86_64": _Calls(206, 207, 209, 208), "aarch64": _GENERIC, "riscv64": _GENERIC}
"""Numbers of the system calls, for which the C library has no functions (``asm/unistd.h``); all little-endian."""


class _Request(ctypes.Structure):
    """``struct iocb`` of ``linux/aio_abi.h``."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("write_flags", ctypes.c_uint32),
        ("operation", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("descriptor", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("size_bytes", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("event_descriptor", ctypes.c_uint32),
    )


class _Event(ctypes.Structure):
    """``struct io_event``: ``outcome`` is 0 or the negative of an error number."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("outcome", ctypes.c_int64),
        ("outcome2", ctypes.c_int64),
    )


class KernelSync(Generic[Token]):
    """Syncs under way in the kernel, each with a token of the caller's. Everything is called by one thread.

    A token has to keep its file open until it comes back from `submit` or `finished`.
    """

    def __init__(self, calls: _Calls) -> None:
        """Raises `OSError` if the kernel gives no queue."""
        self._context = ctypes.c_ulong(0)
        self._free = list(range(IN_FLIGHT_MAX))
        self._descriptor = -1
        self._calls = calls
        self._system_call = ctypes.CDLL(None, use_errno=True).syscall
        self._system_call.restype = ctypes.c_long
        self._call(calls.setup, ctypes.c_uint(IN_FLIGHT_MAX), ctypes.byref(self._context))
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._requests = (_Request * IN_FLIGHT_MAX)()
        for request in self._requests:
            request.operation, request.flags = _FDSYNC, _TELLS_DESCRIPTOR
            request.event_descriptor = self._descriptor
        self._addresses = (ctypes.c_void_p * IN_FLIGHT_MAX)()
        self._events = (_Event * IN_FLIGHT_MAX)()
        self._tokens: list[Token | None] = [None] * IN_FLIGHT_MAX
        self._waiting: deque[tuple[int, Token]] = deque()

    @classmethod
    def open(cls, directory: str) -> KernelSync[Token] | None:
        """A queue for files below ``directory``; None if the kernel, the container or the file system has none."""
        calls = _CALLS.get(platform.machine())
        if calls is None or platform.system() != "Linux" or ctypes.sizeof(ctypes.c_void_p) < ctypes.sizeof(_Event) // 4:
            return None
        try:
            kernel_sync = cls(calls)
        except OSError:
            return None
        try:
            if kernel_sync._syncs(directory):
                return kernel_sync
        except OSError:
            pass
        kernel_sync.close()
        return None

    def _syncs(self, directory: str) -> bool:
        """Sync the directory itself, and wait for it: whether that was taken, reported and well. Raises `OSError`."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            token = cast("Token", descriptor)
            self.add(descriptor, token)
            if self.submit():
                return False
            poll = select.poll()
            poll.register(self, select.POLLIN)
            return bool(poll.poll(_PROBE_MS)) and self.finished() == [(token, None)]
        finally:
            os.close(descriptor)

    def fileno(self) -> int:
        """A descriptor that can be read when `finished` has something to tell."""
        return self._descriptor

    def add(self, descriptor: int, token: Token) -> None:
        """Have a file synced with the next `submit`."""
        self._waiting.append((descriptor, token))

    def submit(self) -> list[Token]:
        """Start what waits, as far as there are places for it; returns what the kernel refused.

        The caller syncs those itself, and sees then what is wrong with them.
        """
        used: list[int] = []
        while self._waiting and self._free:
            descriptor, token = self._waiting.popleft()
            place = self._free.pop()
            self._requests[place].data = place
            self._requests[place].descriptor = descriptor
            self._addresses[len(used)] = ctypes.addressof(self._requests[place])
            self._tokens[place] = token
            used.append(place)
        taken = 0
        with suppress(OSError):
            while taken < len(used):
                addresses = ctypes.byref(self._addresses, taken * ctypes.sizeof(ctypes.c_void_p))
                taken += self._call(self._calls.submit, self._context, ctypes.c_long(len(used) - taken), addresses)
        return [self._take(place) for place in used[taken:]]

    def finished(self) -> list[tuple[Token, OSError | None]]:
        """The syncs that have ended since the last call, with their errors. Does not wait. `submit` starts others."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._descriptor)
        count = self._call(
            self._calls.getevents, self._context, ctypes.c_long(0), ctypes.c_long(IN_FLIGHT_MAX), self._events, None
        )
        return [(self._take(event.data), _error(event.outcome)) for event in self._events[:count]]

    def _take(self, place: int) -> Token:
        token, self._tokens[place] = self._tokens[place], None
        self._free.append(place)
        assert token is not None
        return token

    def close(self) -> None:
        """Wait for what is under way, and give everything back; a second call does nothing."""
        self._end(in_thread=len(self._free) == IN_FLIGHT_MAX)

    def _end(self, *, in_thread: bool) -> None:
        """The kernel takes some 20 ms for an idle queue, too. The end of the process gives it back as well."""
        if self._context.value:
            context = ctypes.c_ulong(self._context.value)
            self._context.value = 0
            if in_thread:
                threading.Thread(target=self._destroy, args=(context,), name="kernel-sync-end", daemon=True).start()
            else:
                self._destroy(context)
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _destroy(self, context: ctypes.c_ulong) -> None:
        with suppress(OSError):
            self._call(self._calls.destroy, context)

    def __del__(self) -> None:
        """Wait for syncs under way, and let the kernel's context go. While the interpreter ends no thread begins."""
        self._end(in_thread=False)

    def _call(self, number: int, *arguments: object) -> int:
        result: int = self._system_call(ctypes.c_long(number), *arguments)
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result


def _error(outcome: int) -> OSError | None:
    return None if outcome == 0 else OSError(-outcome, os.strerror(-outcome))
