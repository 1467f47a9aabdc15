"""Runs random histories: ``python -m tests.histories.run FIRST COUNT [deletes]``, with TRACE=1 for all steps of those that fail."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from unittest.mock import patch

from stratalog.broker.replicas import batch_mark
from stratalog.broker.replicas.leader import Leader
from stratalog.broker.replication import correcting
from tests.histories import checks
from tests.histories.actions import INTERESTING, step
from tests.histories.clients import append_marker
from tests.histories.disk import open_path
from tests.histories.world import World

STEPS = 120


class Failed(AssertionError):
    """A history that does not end well, with its last steps and the command that repeats it."""


async def check(world: World, *, whole: bool) -> None:
    """All that must hold; ``whole``: what readers see, too."""
    for node in world.up():
        checks.check_local(world, node)
        checks.check_producers(world, node)
        checks.check_epochs(world, node)
    node = world.serving()
    if node is not None:
        checks.check_agreement(world, node)
        checks.check_copies(world)
        for each in world.up() if whole else ():
            checks.check_deletions(world, each)
    if node is not None and whole:
        with suppress(checks.StartMoved):
            checks.check_reads(world, node, node.unified, checks.starts_of(world, node))
            await checks.check_times(world, node, node.unified)
    if whole:
        checks.check_archive(world)


async def take_steps(world: World) -> None:
    """The history of a world."""
    steps = 2 * STEPS if world.deletes else STEPS
    for number in range(steps):
        kind = await step(world)
        if world.over:
            return
        often = 0.5 if kind in INTERESTING else 0.08
        await check(world, whole=number == steps - 1 or world.dice.random() < often)


def history(seed: int, *, lines: int = 25, deletes: bool = False) -> Counter[str]:
    """Run the history of a seed; how often the rarer things came. ``deletes`` as in `World`. Raises `Failed`."""
    with tempfile.TemporaryDirectory(prefix="stratalog-history-") as path:
        world = World(seed, path, deletes=deletes)
        with (
            patch.object(os, "urandom", world.dice.randbytes),
            patch.object(Leader, "append_marker", append_marker),
            patch.object(correcting, "_LEAVING_SECONDS", 0),
            patch.object(batch_mark, "open", open_path, create=True),
        ):
            try:
                asyncio.run(take_steps(world))
            except Exception as error:
                steps = "\n".join(world.trace[-lines:] if lines else ())
                again = f"TRACE=1 python -m tests.histories.run {seed} 1" + " deletes" * deletes
                raise Failed(f"{error!r}\n{steps}\nrepeat: {again}") from error
    return world.count


def main() -> None:
    """Run seeds, and name those that fail."""
    logging.disable(logging.CRITICAL)
    first, count, deletes = int(sys.argv[1]), int(sys.argv[2]), "deletes" in sys.argv
    lines = 100_000 if os.environ.get("TRACE") else 0
    counts: Counter[str] = Counter()
    for seed in range(first, first + count):
        try:
            counts += history(seed, lines=lines, deletes=deletes)
        except Failed as failed:
            counts["failed"] += 1
            sys.stdout.write(f"{seed}: {failed}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{dict(counts)}\n")


if __name__ == "__main__":
    main()
