"""Time slices: asked for, told back, nothing else changed."""

import os
import platform
import threading

import pytest

from stratalog.broker.runtime import kernel_slice
from stratalog.broker.runtime.kernel_slice import ask_time_slice, time_slice_us


def in_a_thread(run):
    """The result of ``run`` in a thread of its own, whose end undoes what it asked for."""
    found = []
    thread = threading.Thread(target=lambda: found.append(run()))
    thread.start()
    thread.join()
    return found[0]


def test_the_kernel_tells_the_slice_that_was_asked_for():
    """Or, before Linux 6.12, none."""

    def run():
        return ask_time_slice(5000), time_slice_us()

    asked, told = in_a_thread(run)
    assert told in {5000, None} if asked else told is None


def test_niceness_and_policy_stay():
    """Only the slice is asked for."""

    def run():
        before = os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
        ask_time_slice(7000)
        return before == (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))

    assert in_a_thread(run)


@pytest.mark.parametrize("answer", [None, -1])
def test_a_kernel_that_does_not_know_it_is_left_alone(monkeypatch, answer):
    """Another machine, or a call that is refused."""
    if answer is None:
        monkeypatch.setattr(platform, "machine", lambda: "pdp11")
    else:
        monkeypatch.setattr(kernel_slice, "_call", lambda *_: answer)
    assert not ask_time_slice(1000)
    assert time_slice_us() is None
