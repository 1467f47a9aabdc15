from __future__ import annotations

import gc
import threading
import weakref

import pytest

from stratalog.tier.objects.upload_buffers import UploadBuffers


def test_a_buffer_is_used_again():
    """The second upload writes where the first one did."""
    buffers = UploadBuffers(1, 4096, idle_s=60)
    with buffers.lent(10) as first:
        first[:5] = b"hello"
    with buffers.lent(4096) as second:
        assert bytes(second[:5]) == b"hello"


def test_an_upload_without_a_free_buffer_does_not_wait():
    """Too large, or all lent: there is none, until one comes back."""
    buffers = UploadBuffers(1, 4096, idle_s=60)
    with buffers.lent(4097) as none:
        assert none is None
    with buffers.lent(1) as first, buffers.lent(1) as second:
        assert first is not None
        assert second is None
    with buffers.lent(1) as third:
        assert third is not None


def test_an_upload_that_fails_gives_its_buffer_back():
    """Otherwise the next ones would find none."""
    buffers = UploadBuffers(1, 4096, idle_s=60)
    try:
        with buffers.lent(1):
            raise OSError
    except OSError:
        pass
    with buffers.lent(1) as buffer:
        assert buffer is not None


@pytest.mark.story
def test_idle_memory_goes_back(monkeypatch):
    """When the timer fires, the buffer has no holder; the next upload gets a new one."""
    timers = []

    class Timer:
        def __init__(self, seconds, fire):
            self.seconds, self.fire, self.cancelled = seconds, fire, False
            timers.append(self)

        def start(self):
            pass

        def cancel(self):
            self.cancelled = True

    monkeypatch.setattr(threading, "Timer", Timer)
    buffers = UploadBuffers(2, 4096, idle_s=7)
    with buffers.lent(1) as view:
        held = weakref.ref(view.obj)
        del view
    with buffers.lent(1):
        assert timers[0].cancelled
    assert [one.seconds for one in timers] == [7, 7]
    timers[-1].fire()
    gc.collect()
    assert held() is None
    with buffers.lent(1) as view:
        assert bytes(view) == bytes(4096)
