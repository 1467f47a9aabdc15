"""Tests of hot/storage/kernel_sync.py."""

import errno
import os
import select
import threading

import pytest

from stratalog.hot.storage import kernel_sync as module
from stratalog.hot.storage.kernel_sync import IN_FLIGHT_MAX, KernelSync


@pytest.fixture
def kernel_sync(tmp_path):
    """A queue; where kernel or container have none there is nothing to test."""
    opened = KernelSync.open(str(tmp_path))
    if opened is None:
        pytest.skip("no kernel syncs here")
    yield opened
    opened.close()


@pytest.fixture
def descriptors(tmp_path):
    """More files than are synced at a time, each with something in it."""
    opened = []
    for number in range(2 * IN_FLIGHT_MAX + 3):
        opened.append(os.open(tmp_path / f"{number}", os.O_RDWR | os.O_CREAT | os.O_APPEND))
        os.write(opened[-1], b"x" * 5000)
    yield opened
    for one in opened:
        os.close(one)


def results(kernel_sync, count):
    """So many results, as the loop would gather them: by waiting for the descriptor."""
    found, ready = [], select.poll()  # select() knows descriptors below 1024 only
    ready.register(kernel_sync, select.POLLIN)
    while len(found) < count:
        assert ready.poll(60_000)
        found += kernel_sync.finished()
        assert kernel_sync.submit() == []
    return found


def test_every_sync_is_reported_once(kernel_sync, descriptors):
    """Each sync comes back once, with its own token; then the queue is as empty as before."""
    for _ in range(2):
        for one in descriptors:
            kernel_sync.add(one, f"file {one}")
        assert kernel_sync.submit() == []
        found = results(kernel_sync, len(descriptors))
        assert sorted(token for token, _ in found) == sorted(f"file {one}" for one in descriptors)
        assert {error for _, error in found} == {None}
        assert kernel_sync.finished() == []


def test_no_sync_starts_before_submit(kernel_sync, descriptors):
    """A cycle is started with one call."""
    kernel_sync.add(descriptors[0], "x")
    assert kernel_sync.finished() == []
    assert not select.select([kernel_sync], [], [], 0)[0]
    assert kernel_sync.submit() == []
    assert results(kernel_sync, 1) == [("x", None)]


def test_refused_syncs_are_returned_with_those_behind_them(kernel_sync, descriptors):
    """With all behind it, which may be well; those before it are under way, and every place is free again."""
    for _ in range(IN_FLIGHT_MAX):
        closed = os.dup(descriptors[0])
        os.close(closed)
        kernel_sync.add(descriptors[0], "taken")
        kernel_sync.add(closed, "refused")
        kernel_sync.add(descriptors[1], "behind it")
        assert kernel_sync.submit() == ["refused", "behind it"]
        assert results(kernel_sync, 1) == [("taken", None)]


def test_a_failed_sync_reports_its_error(kernel_sync, descriptors, monkeypatch):
    """The kernel's number becomes the exception that fdatasync would have raised."""
    real = kernel_sync._system_call

    def failing(number, *arguments):
        result = real(number, *arguments)
        if number.value == kernel_sync._calls.getevents and result > 0:
            arguments[3][0].outcome = -errno.EIO
        return result

    monkeypatch.setattr(kernel_sync, "_system_call", failing)
    kernel_sync.add(descriptors[0], "x")
    assert kernel_sync.submit() == []
    ((token, error),) = results(kernel_sync, 1)
    assert token == "x"
    assert isinstance(error, OSError)
    assert error.errno == errno.EIO


def test_a_file_that_cannot_be_synced_is_never_reported_as_synced(kernel_sync):
    """A pipe has no fdatasync; it comes back at once or with an error, but never as synced."""
    reading, writing = os.pipe()
    try:
        kernel_sync.add(writing, "pipe")
        assert kernel_sync.submit() == ["pipe"]
    finally:
        os.close(reading)
        os.close(writing)


def test_closing_waits_for_syncs_under_way(tmp_path, descriptors):
    """A second close does nothing, and the descriptor is given back."""
    opened = KernelSync.open(str(tmp_path))
    if opened is None:
        pytest.skip("no kernel syncs here")
    for one in descriptors:
        opened.add(one, one)
    opened.submit()
    descriptor = opened.fileno()
    opened.close()
    opened.close()
    assert opened.fileno() == -1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_closing_an_idle_queue_does_not_wait_for_the_kernel(kernel_sync, descriptors, monkeypatch):
    """The kernel takes some 20 ms, in which a broker that stops would do nothing else."""
    real, may_end, ended = kernel_sync._system_call, threading.Event(), threading.Event()

    def slow(number, *arguments):
        if number.value == kernel_sync._calls.destroy:
            assert may_end.wait(60)
            assert real(number, *arguments) == 0
            ended.set()
            return 0
        return real(number, *arguments)

    kernel_sync.add(descriptors[0], "x")
    assert kernel_sync.submit() == []
    assert results(kernel_sync, 1) == [("x", None)]
    monkeypatch.setattr(kernel_sync, "_system_call", slow)
    kernel_sync.close()
    assert not ended.is_set()
    may_end.set()
    assert ended.wait(60)


def test_a_queue_that_is_forgotten_begins_no_thread(tmp_path, monkeypatch):
    """It may be while the interpreter ends, when a thread that begins never does."""
    opened = KernelSync.open(str(tmp_path))
    if opened is None:
        pytest.skip("no kernel syncs here")
    monkeypatch.setattr(threading.Thread, "start", lambda _: pytest.fail("a thread begins"))
    opened.__del__()
    assert opened.fileno() == -1


def test_an_unsupported_machine_has_no_kernel_sync(tmp_path, monkeypatch):
    """Another kind of machine, a kernel or container that refuses, a directory that is not there."""
    assert KernelSync.open(str(tmp_path / "absent")) is None
    with monkeypatch.context() as patched:
        patched.setattr(module.platform, "machine", lambda: "pdp11")
        assert KernelSync.open(str(tmp_path)) is None
    with monkeypatch.context() as patched:
        patched.setattr(module.platform, "system", lambda: "Plan 9")
        assert KernelSync.open(str(tmp_path)) is None
    absent = module._Calls(*[100_000] * 4)
    monkeypatch.setattr(module, "_CALLS", dict.fromkeys(module._CALLS, absent))
    assert KernelSync.open(str(tmp_path)) is None
