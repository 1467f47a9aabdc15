"""How soon a leader archives again after what kept it from doing so: the shipped brokers, on virtual time.

Everything else passes well here; the runs of drawn seeds break everything at once, with short pauses between attempts.
"""

import asyncio
import random
import shutil
import tempfile
from contextlib import suppress

import pytest

from sim.cluster.load import Load
from sim.cluster.plan import Kind, Plan
from sim.cluster.routes import leader_of
from sim.cluster.world import World
from sim.trace import Trace
from sim.world import LogLines
from stratalog.tier.stores.faulty_store import Fault, FaultRule

pytestmark = pytest.mark.story

SECONDS_MAX = 8
"""From the end of what kept it: a heartbeat, a roll, a question to the bucket, a claim, an upload and its commit."""
PLAN = Plan(controllers=1, brokers=3, replicated_topics=1, producers=2, kind=Kind.TIERED, lag_seconds=5.0)


class Scripted(World):
    """A cluster with a tiered topic and a producer. ``story`` is what happens to it."""

    def __init__(self, directory, story):
        super().__init__(1, Trace(60), directory, PLAN)
        self.story = story
        self.waited = []

    async def _main(self):
        lives = [asyncio.ensure_future(member.supervise()) for member in self.members.values()]
        await self._until_well(lives, "the beginning")
        load = Load(self, random.Random(7))
        await load.create()
        clients = load.start()
        story = asyncio.ensure_future(self._tell())
        await self._wait(story, [*lives, *clients])
        for one in (*lives, *clients):
            one.cancel()

    async def _tell(self):
        await self.archived(60)
        await self.story(self)

    @property
    def brokers(self):
        return [one for one in self.members.values() if not one.is_controller]

    @property
    def leader(self):
        """The broker that leads the partition; None without one."""
        return self.members.get(leader_of(self, "replicated0", 0)[0])

    @property
    def remote_end(self):
        (topic,) = self.model.topics.values()
        with suppress(FileNotFoundError):
            return self.replicas.archives.manifest(topic.partitions[0]).remote_end

    async def archived(self, seconds=SECONDS_MAX):
        """Wait until more is archived than now."""
        before, since = self.remote_end, self.loop.time()
        while self.remote_end == before:
            assert self.loop.time() - since < seconds, f"nothing was archived for {seconds} s"
            await asyncio.sleep(0.05)
        self.waited.append(self.loop.time() - since)


def played(story):
    """Run it to its end; the seconds that each wait for the archive took."""
    directory = tempfile.mkdtemp(prefix="stratalog-story-", dir="/dev/shm")
    world = Scripted(directory, story)
    try:
        with LogLines.into(world.loop, world.trace):
            world.run()
    except BaseException:
        print("\n".join(world.trace.lines))
        raise
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return world.waited


async def until(condition, seconds=60):
    """Wait until it is true."""
    for _ in range(20 * seconds):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"it is not so after {seconds} s")


async def another_leader(world):
    before = world.leader
    before.down_seconds = 30.0
    before.kill()
    await until(lambda: world.leader not in {before, None})
    await world.archived()


async def no_controller(world):
    controller = world.members[1].process
    controller.frozen = True
    await asyncio.sleep(40)
    end = world.remote_end
    await asyncio.sleep(20)
    assert world.remote_end == end, "a leader has written without contact with the controller"
    world.loop.thaw(controller)
    await world.archived()


async def no_bucket(world):
    world.bucket._faulty.set_rules([FaultRule(Fault.FAIL_BEFORE, count=None)])
    await asyncio.sleep(60)
    world.bucket.heal()
    await world.archived()


async def all_killed(world):
    for one in world.brokers:
        one.down_seconds = 1.0
        one.kill()
    await until(lambda: world.leader and all(one.is_ready for one in world.brokers))
    await world.archived()


@pytest.mark.parametrize("story", [another_leader, no_controller, no_bucket, all_killed], ids=lambda one: one.__name__)
def test_the_first_upload_comes_within_seconds(story):
    """The time does not depend on how long the leader was kept from it."""
    assert len(played(story)) == 2
