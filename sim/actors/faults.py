"""Faults: kills, power cuts, clean restarts, a bad disk, a bad bucket, a bad network, clocks that jump."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from sim.actors.surroundings import Surroundings
from sim.under.process import Process

__all__ = ["Faults"]


class Faults:
    """Draws one fault after the other until the plan's are used up."""

    def __init__(self, world: Surroundings, dice: random.Random) -> None:
        self._world = world
        self._dice = dice
        self.stopped = False
        self._with_power = False
        kinds: list[tuple[Callable[[], None], int]] = [
            (self._kill, 3),
            (self._restart, 1),
            (self._kill_worker, 2),
            (self._spoil_bucket, 3),
            (self._reset_connections, 1),
            (self._lose_answer, 4),
            (self._die_writing, 3),
            (self._stall, 1),
            (self._fail_sync, 0 if world.plan.unsynced else 1),
            (self._fill_disk, 1),
            (self._jump_clock, 1),
        ]
        if world.plan.power_cuts:
            kinds += [(self._cut_power, 2), (self._lose_power_writing, 8)]
        self._kinds = kinds
        world.disk.crashed = self._crashed

    async def run(self) -> None:
        """Break things now and then."""
        for _ in range(self._world.plan.faults):
            await asyncio.sleep(self._dice.uniform(0.02, 1.5))
            if self.stopped:
                return
            (kind,) = self._dice.choices([kind for kind, _ in self._kinds], [weight for _, weight in self._kinds])
            kind()

    def heal(self) -> None:
        """From now on everything works."""
        self.stopped = True
        world = self._world
        world.bucket.heal()
        world.disk.free_bytes = None
        world.disk.failing_syncs = world.disk.crash_in = 0
        world.loop.network.break_in = 0
        self._note("all is well from now on")

    def _note(self, what: str) -> None:
        self._world.trace.note("faults", what)

    def _kill(self) -> None:
        self._note("kills the broker")
        self._world.kill_broker()

    def _cut_power(self) -> None:
        self._world.kill_broker()
        self._note(f"cuts the power: {self._world.disk.cut_power()}")

    def _die_writing(self) -> None:
        self._with_power = False
        self._arm()

    def _lose_power_writing(self) -> None:
        self._with_power = True
        self._arm()

    def _arm(self) -> None:
        self._world.disk.crash_in = count = self._dice.randint(1, 40)
        self._note(f"{'power goes' if self._with_power else 'the broker dies'} in {count} changes of the disk")

    def _crashed(self, process: Process) -> None:
        """In the middle of a step of the broker, or of a worker that writes to the disk."""
        self._note(f"{process.name} dies at a change of the disk")
        if self._with_power or process is self._world.broker:
            self._world.kill_broker()
        else:
            process.kill()
        if self._with_power:
            self._note(f"cuts the power: {self._world.disk.cut_power()}")

    def _lose_answer(self) -> None:
        self._world.loop.network.break_in = count = self._dice.randint(1, 15)
        self._note(f"loses an answer in {count}")

    def _restart(self) -> None:
        self._note("asks the broker to stop")
        self._world.stop_broker()

    def _kill_worker(self) -> None:
        workers = list(self._world.spawner.workers_alive)
        if workers:
            worker = self._dice.choice(workers)
            self._note(f"kills {worker.process.name}")
            worker.process.kill()

    def _spoil_bucket(self) -> None:
        self._note(f"the bucket: {self._world.bucket.spoil()}")
        self._world.loop.call_later(self._dice.uniform(0.1, 4), self._world.bucket.heal)

    def _reset_connections(self) -> None:
        self._note(f"resets {self._world.loop.network.reset_some(0.6)} connections")

    def _stall(self) -> None:
        seconds = self._dice.choice((0.05, 1, 12))
        self._note(f"everything stands still for {seconds} s")
        self._world.loop.pass_time(seconds)

    def _fail_sync(self) -> None:
        self._note("the next sync fails")
        self._world.disk.failing_syncs = 1

    def _fill_disk(self) -> None:
        self._note("the disk is full soon")
        self._world.disk.free_bytes = self._dice.randint(0, 3000)

        def make_room() -> None:
            self._world.disk.free_bytes = None

        self._world.loop.call_later(self._dice.uniform(0.1, 3), make_room)

    def _jump_clock(self) -> None:
        jump_ms = self._dice.choice((-3000, -50, 50, 1000))
        self._note(f"the clock jumps by {jump_ms} ms")
        self._world.clock.jump(jump_ms)
