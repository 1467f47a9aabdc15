"""Runs the nodes of a cluster as children of this process until they have ended, or a signal asks for it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue

from stratalog.broker.local_cluster.child_process import ChildProcess
from stratalog.broker.local_cluster.supervision import (
    GRACE_MS,
    Action,
    AllServe,
    Event,
    Finish,
    Kill,
    Print,
    Say,
    StopAsked,
    Supervisor,
    Terminate,
    Tick,
)

__all__ = ["run_nodes"]


def run_nodes(
    commands: Mapping[int, Sequence[str]],
    *,
    environment: Mapping[str, str],
    write: Callable[[str], object],
    note: Callable[[str], object],
    monotonic: Callable[[], float],
    on_all_serve: Callable[[Sequence[Mapping[str, str]]], object] = lambda _: None,
    grace_ms: int = GRACE_MS,
) -> bool:
    """Start the command of each node and supervise them all; whether every node stopped in order, and because asked.

    ``write`` takes the lines for stdout, ``note`` those for stderr; ``on_all_serve`` is called once, with the words of the
    nodes' ready lines. Belongs on the main thread: SIGINT, SIGTERM and, where
    it is not ignored, SIGHUP stop the nodes in order; a second SIGINT or SIGTERM stops them at once.
    """
    supervisor = Supervisor(commands, grace_ms=grace_ms)
    events: SimpleQueue[Event] = SimpleQueue()
    children: dict[int, ChildProcess] = {}

    with _stop_signals(events.put):
        try:
            for node_id, command in commands.items():
                children[node_id] = ChildProcess(node_id, command, events.put, environment=environment)
            while True:
                event = _next(events, supervisor.wakes_at_ms, monotonic)
                for action in supervisor.step(event, _ms(monotonic)):
                    if isinstance(action, Finish):
                        return not action.failed
                    if isinstance(action, AllServe):
                        on_all_serve(action.nodes)
                    _act(action, children, write, note)
        finally:
            for child in children.values():
                child.kill()


def _act(
    action: Action,
    children: Mapping[int, ChildProcess],
    write: Callable[[str], object],
    note: Callable[[str], object],
) -> None:
    match action:
        case Print(text):
            write(text)
        case Say(text):
            note(text)
        case Terminate(node_id):
            children[node_id].terminate()
        case Kill(node_id):
            children[node_id].kill()


def _ms(monotonic: Callable[[], float]) -> int:
    return int(monotonic() * 1000)


def _next(events: SimpleQueue[Event], wakes_at_ms: int | None, monotonic: Callable[[], float]) -> Event:
    """The next event, or a `Tick` when its time comes first."""
    if wakes_at_ms is None:
        return events.get()
    try:
        return events.get(timeout=max(wakes_at_ms - _ms(monotonic), 0) / 1000 + 0.001)
    except Empty:
        return Tick()


@contextmanager
def _stop_signals(put: Callable[[Event], object]) -> Iterator[None]:
    """Signals become events while this lasts. A queue of this kind may be put to by a handler at any time."""
    hung_up = False

    def stop(number: int, _: object) -> None:
        nonlocal hung_up
        # A terminal and its shell send one SIGHUP each, and systemd one behind each SIGTERM: it is never a second signal.
        if number == signal.SIGHUP and hung_up:
            return
        hung_up = True
        put(StopAsked(signal.Signals(number).name))

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
