"""Shares one budget of memory among the frames that all connections receive, so that each frame that begins also ends.

Memory is charged when it is handed out, never when a client announces a length. Four rules follow from that.

- A frame that fits into one ordinary buffer never waits. The budget keeps a reserve for those, so small clients get
  through whatever large frames do.
- A larger frame asks each time its buffer has to grow. It waits while the budget, or the share of its address, is used
  up. It reads what it was granted without asking again.
- One of the waiting frames goes on in any case, with memory beyond the budget: the first of the address that holds least.
  So there is always a frame that can end.
- While frames wait, addresses that hold much have to be quick, and no frame waits for ever: `too_late` names the
  connections to close. A client that announces a frame and stays silent loses its memory, and the others get it.

Requests that are complete hold memory, too, until their records are written (*leased*). Writing them ends without the
client's help, so no connection is closed for it: while leases alone exceed the budget, no new frame begins.

This is a pure state machine: the caller brings the time, and resumes the frames that `awake` returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["LargeFrame", "ReceiveMemory"]

RESERVE_SHARE: Final = 8
"""One part in so many of the budget is kept for frames that fit into an ordinary buffer."""

PRESSED_SECONDS: Final = 5.0
PRESSED_BYTES_PER_SECOND: Final = 1 << 20
"""While others wait, a frame must come at this rate, and has `PRESSED_SECONDS` besides."""

STALLED_SECONDS_MAX: Final = 60.0
"""While memory is short, the broker stops reading a frame for so long in all before it closes the connection."""


class LargeFrame:
    """An unfinished frame that has, or needs, more than an ordinary buffer. Times are monotonic seconds.

    ``held_bytes`` is the size of its buffer, ``wanted_bytes`` the size it asked for last. ``since`` is when it began. It is
    stalled while the broker does not read it: since ``stalled_since``, and for ``stalled_seconds`` before that.
    """

    __slots__ = ("held_bytes", "host", "resume", "since", "stalled_seconds", "stalled_since", "wanted_bytes")

    def __init__(self, host: str, held_bytes: int, since: float, resume: Callable[[], None]) -> None:
        """``resume`` is for the caller, who calls it when the frame may go on."""
        self.host = host
        self.held_bytes = held_bytes
        self.wanted_bytes = held_bytes
        self.since = since
        self.resume = resume
        self.stalled_since: float | None = None
        self.stalled_seconds = 0.0

    def follow(self, stalled: bool, now: float) -> None:
        """From ``now`` on the broker does not read the frame (``stalled``), or reads it again."""
        if stalled:
            if self.stalled_since is None:
                self.stalled_since = now
        elif self.stalled_since is not None:
            self.stalled_seconds += now - self.stalled_since
            self.stalled_since = None

    def begin_at(self, now: float) -> None:
        """The frame before this one, in the same buffer, is complete: all times count from ``now``."""
        self.since = now
        self.stalled_seconds = 0.0
        if self.stalled_since is not None:
            self.stalled_since = now

    def stalled_for(self, now: float) -> float:
        """Seconds for which the broker has not read the frame, in all."""
        return self.stalled_seconds + (0.0 if self.stalled_since is None else now - self.stalled_since)


class ReceiveMemory:
    """The account of one server. All sizes are in bytes.

    - ``used_bytes``: the buffers that are in use. The buffer pool keeps it, and ``unfinished_bytes`` too.
    - ``unfinished_bytes``: those of them that hold the beginning of a frame.
    - ``large_bytes``: the memory granted to large frames, without the one frame that goes on beyond the budget (``_express``).
    - ``hosts``: the same by address.
    """

    __slots__ = (
        "_express",
        "_hosts_waiting",
        "_large_max",
        "hosts",
        "large_bytes",
        "limit_bytes",
        "per_host_bytes",
        "unfinished_bytes",
        "used_bytes",
    )

    def __init__(self, limit_bytes: int, per_host_bytes: int | None = None) -> None:
        """``per_host_bytes`` is how much the large frames of one address may hold; None stands for half of the budget."""
        self.limit_bytes = limit_bytes
        self.per_host_bytes = limit_bytes // 2 if per_host_bytes is None else per_host_bytes
        self._large_max = limit_bytes - limit_bytes // RESERVE_SHARE
        self.used_bytes = self.unfinished_bytes = self.large_bytes = 0
        self.hosts: dict[str, int] = {}
        self._hosts_waiting: dict[str, dict[LargeFrame, None]] = {}
        self._express: LargeFrame | None = None

    @property
    def leased_bytes(self) -> int:
        """The memory of complete requests that wait to be carried out."""
        return self.used_bytes - self.unfinished_bytes

    @property
    def accepts(self) -> bool:
        """Whether new frames may begin."""
        return self.used_bytes - self.unfinished_bytes <= self.limit_bytes

    @property
    def waiting_count(self) -> int:
        """Frames that wait for memory."""
        return sum(map(len, self._hosts_waiting.values()))

    @property
    def waits(self) -> bool:
        """Whether a frame waits for memory."""
        return bool(self._hosts_waiting)

    def waits_since(self) -> float | None:
        """When the frame that has waited longest began to wait; None if none does."""
        heads = (next(iter(queue)).stalled_since for queue in self._hosts_waiting.values())
        return min((since for since in heads if since is not None), default=None)

    def plenty(self, host: str) -> bool:
        """Whether a frame of ``host`` may have memory for bytes that have not come yet."""
        held = self.used_bytes - self.unfinished_bytes + self.large_bytes
        return held <= self.limit_bytes // 2 and self.hosts.get(host, 0) <= self.per_host_bytes // 2

    def begin(self, host: str, held_bytes: int, now: float, resume: Callable[[], None]) -> LargeFrame:
        """Enter a frame of ``host`` that is large or becomes so; its buffer has ``held_bytes`` at present."""
        frame = LargeFrame(host, held_bytes, now, resume)
        self._add(host, held_bytes)
        return frame

    def ask(self, frame: LargeFrame, wanted_bytes: int) -> bool:
        """Whether the frame may have ``wanted_bytes`` in all now. If not it waits, until `awake` returns it or `end` is called."""
        frame.wanted_bytes = wanted_bytes
        more = wanted_bytes > frame.held_bytes and frame is not self._express
        if not more or (frame.host not in self._hosts_waiting and self._fits(frame)):
            self._grant(frame)
        elif self._express is None and self.leased_bytes <= self._large_max:
            self._let_pass(frame)
        else:
            self._hosts_waiting.setdefault(frame.host, {})[frame] = None
            return False
        return True

    def is_beyond_budget(self, frame: LargeFrame) -> bool:
        """Whether ``frame`` is the one that goes on whatever is left."""
        return frame is self._express

    def settle(self, frame: LargeFrame, held_bytes: int) -> None:
        """Note that the frame's buffer has ``held_bytes``, which may differ from the size that was granted."""
        if frame is not self._express:
            self._add(frame.host, held_bytes - frame.held_bytes)
        frame.held_bytes = held_bytes

    def end(self, frame: LargeFrame) -> None:
        """Forget a frame: it is complete, or its connection has gone, or its buffer is an ordinary one again."""
        if self._express is frame:
            self._express = None
        else:
            self._add(frame.host, -frame.held_bytes)
            self._forget(frame)

    def awake(self) -> list[LargeFrame]:
        """Grant what fits now, and return the frames that need not wait any more, for the caller to resume."""
        granted: list[LargeFrame] = []
        if self.leased_bytes + self.large_bytes < self._large_max:
            for host in list(self._hosts_waiting):
                for frame in list(self._hosts_waiting[host]):
                    if not self._fits(frame):
                        break
                    granted.append(frame)
                    self._forget(frame)
                    self._grant(frame)
        if self._express is None and self._hosts_waiting and self.leased_bytes <= self._large_max:
            host = min(self._hosts_waiting, key=lambda each: self.hosts.get(each, 0))
            frame = next(iter(self._hosts_waiting[host]))
            granted.append(frame)
            self._forget(frame)
            self._let_pass(frame)
        return granted

    def too_late(self, frame: LargeFrame, received_bytes: int, now: float) -> str | None:
        """Why to close the frame's connection: memory is short, and the frame keeps some for too long. None to keep it.

        ``received_bytes`` of the frame are there.
        """
        stalled = frame.stalled_for(now)
        if stalled > STALLED_SECONDS_MAX and (frame.host in self._hosts_waiting or self._presses(frame)):
            return f"a frame with {received_bytes} bytes received has been held up for {stalled:.0f} s, memory is short"
        taken = now - frame.since - stalled
        if taken > PRESSED_SECONDS + received_bytes / PRESSED_BYTES_PER_SECOND and self._presses(frame):
            return f"{received_bytes} bytes of a frame came in {taken:.0f} s, and others wait for its memory"
        return None

    def _presses(self, frame: LargeFrame) -> bool:
        """Whether others wait for this frame: it has the pass beyond the budget, or its address holds the average or more."""
        if not self._hosts_waiting:
            return False
        return frame is self._express or self.hosts.get(frame.host, 0) * len(self.hosts) >= self.large_bytes

    def _fits(self, frame: LargeFrame) -> bool:
        more = frame.wanted_bytes - frame.held_bytes
        return (
            self.leased_bytes + self.large_bytes + more <= self._large_max
            and self.hosts.get(frame.host, 0) + more <= self.per_host_bytes
        )

    def _grant(self, frame: LargeFrame) -> None:
        if frame.wanted_bytes > frame.held_bytes:
            self.settle(frame, frame.wanted_bytes)

    def _let_pass(self, frame: LargeFrame) -> None:
        """The frame goes on whatever is left of the budget, and counts no more against it."""
        self._add(frame.host, -frame.held_bytes)
        self._express = frame
        self._grant(frame)

    def _add(self, host: str, more: int) -> None:
        self.large_bytes += more
        held = self.hosts.get(host, 0) + more
        if held:
            self.hosts[host] = held
        else:
            self.hosts.pop(host, None)

    def _forget(self, frame: LargeFrame) -> None:
        queue = self._hosts_waiting.get(frame.host)
        if queue is not None and frame in queue:
            del queue[frame]
            if not queue:
                del self._hosts_waiting[frame.host]
