import time

from stratalog.broker.runtime.clock import LoopClock, SystemClock


def test_the_system_clock_tells_wall_time_in_milliseconds_and_never_goes_back():
    """Wall time agrees with the machine's; monotonic readings do not decrease."""
    clock = SystemClock()
    before = time.time_ns() // 1_000_000
    assert before <= clock.wall_ms() <= time.time_ns() // 1_000_000
    readings = [clock.monotonic() for _ in range(100)]
    assert readings == sorted(readings)


def test_the_loop_clock_follows_the_loop():
    """Both times of a virtual loop move with it."""

    class Loop:
        now = 2.5

        def time(self):
            return self.now

    loop = Loop()
    clock = LoopClock(loop, 1_000_000)
    assert (clock.monotonic(), clock.wall_ms()) == (2.5, 1_002_500)
    loop.now = 4.0
    assert (clock.monotonic(), clock.wall_ms()) == (4.0, 1_004_000)
