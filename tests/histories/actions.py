"""The steps of a random history, and how often each comes."""

from __future__ import annotations

import asyncio

from stratalog.broker.replicas.led import Led
from tests.histories.cleaning import cleaning
from tests.histories.disk import NAME
from tests.histories.oracle import Wrong
from tests.histories.world import World


async def step(world: World) -> str:
    """Take one step at random; its kind."""
    dice = world.dice
    world.now_ms += dice.choice([0, 10, 200, 1500])
    if (world.leader is None or not world.led.is_up) and dice.random() < 0.5:
        world.elect()
    often = DELETING if world.deletes else TRIMMING if world.trims else {}
    kind = dice.choices(list(ACTIONS), [often.get(one, weight) for one, (weight, _) in ACTIONS.items()])[0]
    found = ACTIONS[kind][1](world)
    if asyncio.iscoroutine(found):
        await found
    for node in world.up():
        node.shadow()
        node.unified.awaits_copies = len(world.isr) < len(world.nodes)
    world.archive_moved()
    return kind


async def produce(world):
    """Some batches, most of them committed soon."""
    dice = world.dice
    for _ in range(dice.choice([1, 3, 6])):
        for _ in range(dice.choice([1, 1, 3])):
            world.produce()
        if dice.random() < 0.9:
            disk(world, world.serving())
        for _ in range(dice.choice([0, 3, 5])):
            await world.fetch()
        if dice.random() < 0.3:
            world.isr_step()


def disk(world, node=None):
    node = node or world.dice.choice(world.nodes)
    if node.is_up:
        node.write()
        if world.flush == 1 or world.dice.random() < 0.3:
            node.flush()


def roll(world):
    node = world.dice.choice(world.nodes)
    if node.is_up:
        node.log.roll()


def archive(world):
    node = world.led
    if node is None or not node.is_up:
        return
    for _ in range(world.dice.choice([1, 6, 15])):
        world.now_ms += 200
        node.look()
        node.answer(world.dice.choices(["done", "lost", "late"], [10, 1, 1])[0])
    if world.dice.random() < 0.2:
        world.now_ms += 120_000
        node.look()
    if world.dice.random() < 0.3:
        node.drain_reads()


def others_archive(world):
    """Commands of a node that need not lead any more."""
    node = world.dice.choice(world.nodes)
    if node.is_up:
        node.answer("done")


def clean(world):
    dice = world.dice
    node = dice.choice(world.nodes)
    if not node.is_up:
        return
    task = node.task
    if task is None:
        if "compact" not in world.policy:
            return
        if dice.random() < 0.7:
            node.log.roll()
            node.write()
            node.flush()
        task = node.task = cleaning(node)
    for _ in range(dice.choice([1, 3, 8, 99, 99, 99])):
        try:
            next(task)
        except (StopIteration, FileNotFoundError):  # segments may leave meanwhile
            node.task = None
            return


def crash(world):
    dice = world.dice
    node = dice.choice(world.nodes)
    if not node.is_up:
        return
    how = dice.choice(["kill", "power", "power", "clean"])
    if not world.strict and dice.random() < 0.05 and node.number != world.leader:
        node.stop("kill")
        node.wipe()
        world.leaves_in_sync(node)
        world.log("WIPE", node.number)
        return
    node.task = None
    try:
        node.stop(how)
    except OSError as error:
        raise Wrong(f"a stop fails: {error!r}") from error
    node.led = None
    if dice.random() < 0.4:
        node.back_up()
    world.log("stop", node.number, how)
    for client in world.clients:
        if world.leader == node.number:
            client.waiting = False
    if world.leader == node.number:
        world.leader = None
    if len(world.isr) > 1:
        world.leaves_in_sync(node)


def put_back(world):
    """The disk of a replica that others can do without is put back as it was at an earlier stop."""
    node = world.dice.choice(world.nodes)
    if node.backup is None or node.number == world.leader or not world.isr - {node.number}:
        return
    if node.is_up:
        node.task = None
        node.stop("kill")
        node.led = None
    node.put_back()
    world.leaves_in_sync(node)
    world.log("put back", node.number)
    world.count["put back"] += 1


def rise(world):
    down = [one for one in world.nodes if not one.is_up]
    if not down:
        return
    node = world.dice.choice(down)
    node.role_epoch = -1
    node.task = None
    node.start()
    if node.log.missing_ranges():  # without syncs a power cut may leave a hole: the replica is given up
        if world.strict:
            raise Wrong(f"{node.number} has lost {node.log.missing_ranges()}")
        node.stop("kill")
        node.wipe()
        if world.isr == {node.number}:
            world.over = True
        world.leaves_in_sync(node)
        return
    world.log(
        "start",
        node.number,
        "leo",
        node.log.log_end_offset,
        "start",
        node.log.log_start_offset,
        node.log.first_base_offset,
        "hw",
        node.partition.high_watermark,
    )
    if not node.had:
        node.led = Led.LOST
    if world.leader is not None and world.leader != node.number and world.dice.random() < 0.8:
        world.take_role(node)


def elect(world):
    if world.dice.random() < 0.5:
        world.elect()


def delete_records(world):
    node = world.serving()
    if node is None or "delete" not in world.policy or world.dice.random() < 0.5:
        return
    high = node.partition.high_watermark
    target = world.dice.randint(node.log.log_start_offset, max(high, node.log.log_start_offset))
    target = min(target, high)
    if node.log.advance_log_start(target):
        node.directory.write_checkpoints({NAME: node.log})
        node.log.delete_local_before(node.log.log_start_offset)
        world.log("delete records", target)


def retain(world):
    node = world.dice.choice(world.nodes)
    if node.is_up:
        before = node.log.log_start_offset, node.log.first_base_offset
        node.retain()
        after = node.log.log_start_offset, node.log.first_base_offset
        if after != before:
            world.log("retain", node.number, before, after)


def checkpoint(world):
    node = world.dice.choice(world.nodes)
    if node.is_up:
        node.checkpoint()


def reconfigure(world):
    dice = world.dice
    if dice.random() < 0.6:
        return
    setting = dice.choice(["policy", "policy", "tiered", "local", "copies"])
    if setting == "policy":
        world.policy = dice.choice([("compact",), ("delete",), ("compact", "delete")])
    elif setting == "tiered":
        world.tiered = not world.tiered
    elif setting == "copies":
        world.copies = not world.copies
    else:
        world.local_bytes = dice.choice([0, 300, 1000, -1])
    world.log("config", world.policy, "tiered" if world.tiered else "plain", "copies" if world.copies else "no copies")
    world.config = world.make_config()
    for node in world.up():
        node.partition.update_config(world.config)
        if node.partition.leader is not None and node.role_epoch == world.epoch:
            node.attach(Led.RECONFIGURED)


def tick(world):
    node = world.dice.choice(world.nodes)
    if node.is_up:
        node.partition.tick(world.now_ms / 1000)
        node.write()
        if world.flush == 1:
            node.flush()


ACTIONS = {
    "produce": (14, produce),
    "fetch": (6, lambda world: world.fetch()),
    "isr": (3, World.isr_step),
    "archive": (8, archive),
    "others archive": (1.5, others_archive),
    "clean": (10, clean),
    "crash": (2.5, crash),
    "put back": (1.5, put_back),
    "rise": (4, rise),
    "elect": (2.5, elect),
    "disk": (2, disk),
    "roll": (2, roll),
    "delete records": (0.7, delete_records),
    "retain": (2, retain),
    "trim": (1, lambda world: world.trim()),
    "checkpoint": (2, checkpoint),
    "reconfigure": (1.5, reconfigure),
    "merge": (1.5, World.merge),
    "compact archive": (2.5, World.compact_archive),
    "tick": (1, tick),
}

TRIMMING = {"delete records": 5, "crash": 4, "rise": 8, "elect": 5, "fetch": 10, "clean": 1, "reconfigure": 0.1}
"""The weights where records are deleted all the time."""


DELETING = {"clean": 20, "fetch": 14, "isr": 8, "crash": 1.5, "rise": 6, "put back": 4, "archive": 0, "reconfigure": 0}
"""Other weights where tombstones are to go: replicas are in sync for longer, and cleaned more often."""

INTERESTING = {"clean", "merge", "compact archive", "delete records", "retain", "elect", "trim"}
