"""A broker's parts follow images: what is done at once, and what beside."""

import asyncio
from types import SimpleNamespace

import pytest

from stratalog.broker.image_following import OPENED_FIRST, FollowingServices, ImageFollowing
from stratalog.broker.replicas.due_partitions import DuePartitions
from stratalog.broker.runtime.slices import Slices
from stratalog.metadata.image.difference import difference
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.wire.records.metadata import PartitionRecord, TopicRecord


class Hosted:
    """Opens a partition in a step, and notes its calls."""

    def __init__(self):
        self.table = SimpleNamespace(due=DuePartitions(), brokers_changed=self.brokers_changed)
        self.opened, self.deleted, self.resigned, self.looked_for_joiners = [], [], 0, 0
        self.fails = self.has_started = False
        self.registered = True
        self.logs = SimpleNamespace(is_behind=False)

    def following(self, changed):
        for topic_id in changed:
            for number in changed[topic_id]:
                self.table.due.add(topic_id.hex(), topic_id, number)
                yield

    def opening(self):
        while (one := self.table.due.take()) is not None:
            if self.registered:
                self.opened.append(one)
            yield
            if self.fails:
                self.fails = False
                raise RuntimeError("a mistake")

    def deleting(self, topic, _topic_id):
        self.deleted.append(topic)
        yield

    def resigning(self):
        self.resigned += 1
        yield

    def started(self):
        self.has_started = True

    def is_registered(self, _image):
        return self.registered

    def brokers_changed(self):
        self.looked_for_joiners += 1
        yield


class World:
    def __init__(self, *, has_peers, registered=True):
        self.image, self.hosted, self.told = EMPTY_IMAGE, Hosted(), []
        self.hosted.registered = registered
        ticks = iter(range(1 << 40))
        slices = Slices(asyncio.get_running_loop().call_soon, lambda: next(ticks) * 0.001)  # a step takes a millisecond
        self.following = ImageFollowing(
            FollowingServices(
                node_id=1,
                has_peers=has_peers,
                hosted=self.hosted,
                slices=slices,
                image=lambda: self.image,
                follow_quotas=lambda _image: None,
                follow_settings=lambda _image: None,
                is_mounted=lambda topic_id: topic_id == b"m" * 16,
                note_deletions=lambda _image, _change: None,
                topics_deleted=lambda _removed: None,
                topics_changed=lambda image, removed: self.told.append((image, dict(removed))),
            )
        )

    async def create(self, letter, count):
        topic_id = letter.encode() * 16
        records = [TopicRecord(name=letter, topic_id=topic_id)]
        records += [
            PartitionRecord(partition_id=one, topic_id=topic_id, replicas=[1], isr=[1], leader=1)
            for one in range(count)
        ]
        before, self.image = self.image, self.image.apply(records)
        await self.following.applied(self.image, difference(before, self.image))


def test_an_image_with_many_new_partitions_is_followed_before_their_logs_are_open():
    """Commands, heartbeats among them, waited for the logs of all partitions of the image before."""

    async def main():
        world = World(has_peers=True)
        await world.create("a", OPENED_FIRST + 1)
        assert len(world.hosted.opened) < 30
        assert world.told == [(world.image, {})]
        await world.create("b", 1)
        assert len(world.hosted.opened) < OPENED_FIRST
        await world.following.all_open()
        assert len(world.hosted.opened) == OPENED_FIRST + 2

    asyncio.run(main())


def test_logs_are_opened_a_few_at_a_time_while_more_commands_may_come(monkeypatch):
    """Ten thousand topics are created by a hundred commands. Where all logs are waited for, and when no command came for a while, they are opened at full speed."""
    monkeypatch.setattr("stratalog.broker.image_following._PAUSE_SECONDS", 0.01)
    monkeypatch.setattr("stratalog.broker.image_following._CROWDED_SECONDS", 0.3)

    async def main():
        world = World(has_peers=True)
        await world.create("a", OPENED_FIRST * 20)
        await asyncio.sleep(0.1)
        assert 0 < len(world.hosted.opened) <= 5 * 12
        await world.following.all_open()
        assert not world.hosted.table.due
        await world.create("b", OPENED_FIRST * 20)
        await asyncio.sleep(0.1)
        assert world.hosted.table.due
        for _ in range(10):  # images of other changes make it no crowd
            await asyncio.sleep(0.05)
            await world.following.applied(world.image, difference(world.image, world.image))
        assert not world.hosted.table.due

    asyncio.run(main())


def test_no_log_is_opened_while_too_many_wait_for_their_sync(monkeypatch):
    """Each holds two files open: 10,000 of them took all descriptors, and no connection was accepted. Also where all are waited for."""
    monkeypatch.setattr("stratalog.broker.image_following._PAUSE_SECONDS", 0.001)

    async def main():
        world = World(has_peers=True)
        world.hosted.logs.is_behind = True
        creating = asyncio.create_task(world.create("a", 10))
        await asyncio.sleep(0.05)
        assert len(world.hosted.opened) == 1
        world.hosted.logs.is_behind = False
        await creating
        assert len(world.hosted.opened) == 10

    asyncio.run(main())


class Watched(DuePartitions):
    """Fails who looks at it for ever and lets nothing else happen."""

    looks = 0

    def __len__(self):
        self.looks += 1
        assert self.looks < 10_000
        return super().__len__()


@pytest.mark.parametrize("turns", range(6))
def test_logs_that_become_due_as_an_opening_ends_are_opened(monkeypatch, turns):
    """Between the end of the task and what follows upon it, a wait took the ended task for one under way: the loop stood still for ever."""
    monkeypatch.setattr("stratalog.broker.image_following._CROWDED_SECONDS", 0)

    async def main():
        world = World(has_peers=True)
        world.hosted.table.due = due = Watched()
        await world.create("a", OPENED_FIRST + 1)
        while len(world.hosted.opened) <= OPENED_FIRST:  # noqa: ASYNC110 - the very turn of the loop counts
            await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        due.add("b", b"b" * 16, 0)
        await world.following.all_open()
        assert len(world.hosted.opened) == OPENED_FIRST + 2

    asyncio.run(main())


@pytest.mark.parametrize(("has_peers", "count"), [(True, OPENED_FIRST), (False, OPENED_FIRST * 3)])
def test_partitions_of_a_command_are_open_when_it_is_answered(has_peers, count):
    """A few partitions in a cluster of several nodes; however many where there is only this one."""

    async def main():
        world = World(has_peers=has_peers)
        await world.create("a", count)
        assert len(world.hosted.opened) == count

    asyncio.run(main())


def test_a_mistake_in_one_step_keeps_no_other_partition_closed(caplog):
    """It is logged, and the others are opened."""

    async def main():
        world = World(has_peers=True)
        world.hosted.fails = True
        await world.create("a", OPENED_FIRST * 2)
        while world.hosted.table.due:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
        assert len(world.hosted.opened) == OPENED_FIRST * 2
        assert "partitions were not opened" in caplog.text

    asyncio.run(main())


def test_topics_of_a_mounted_bucket_are_not_opened():
    """They are only read."""

    async def main():
        world = World(has_peers=False)
        await world.create("m", 2)
        assert world.hosted.opened == []

    asyncio.run(main())


def test_a_start_waits_for_the_logs_that_come_with_the_next_registration():
    """A log that has lost records ends the registration while others wait: those are not new."""

    async def main():
        world = World(has_peers=True)
        await world.create("a", OPENED_FIRST * 2)
        starting = asyncio.ensure_future(world.following.started())
        world.following.registration_lost()
        world.hosted.table.due.clear()
        await asyncio.sleep(0.05)
        assert not starting.done()
        world.following.caught_up_again()
        await asyncio.wait_for(starting, 5)
        assert world.hosted.has_started
        assert len(world.hosted.opened) >= OPENED_FIRST * 2

    asyncio.run(main())


def test_a_start_waits_for_a_registration_that_was_lost_before_its_first_image():
    """The broker looked at its bucket meanwhile. No log was opened, and one that was gone passed for a new one later."""

    async def main():
        world = World(has_peers=True, registered=False)
        await world.create("a", 2)
        starting = asyncio.ensure_future(world.following.started())
        await asyncio.sleep(0.05)
        assert (world.hosted.opened, world.hosted.has_started) == ([], False)
        world.hosted.registered = True
        world.following.caught_up_again()
        await asyncio.wait_for(starting, 5)
        assert [one.number for one in world.hosted.opened] == [0, 1]
        assert world.hosted.has_started

    asyncio.run(main())


def test_after_a_lost_registration_and_at_the_end_nothing_more_is_opened():
    """The controller knows of no leadership; a stop closes what is open."""

    async def main():
        world = World(has_peers=True)
        await world.create("a", OPENED_FIRST * 2)
        world.following.registration_lost()
        await asyncio.sleep(0)
        assert world.hosted.resigned == 1
        world.following.close()
        opened = len(world.hosted.opened)
        await asyncio.sleep(0.01)
        assert len(world.hosted.opened) == opened

    asyncio.run(main())


def test_a_broker_that_is_registered_anew_takes_its_roles_again():
    """No change names the partitions that it follows outside of their in-sync sets."""

    async def main():
        world = World(has_peers=True)
        await world.create("a", 2)
        world.following.registration_lost()
        await asyncio.sleep(0)
        world.hosted.opened.clear()
        world.following.caught_up_again()
        for _ in range(20):
            await asyncio.sleep(0)
        assert [one.number for one in world.hosted.opened] == [0, 1]

    asyncio.run(main())


def slow(world, order, **steps):
    """Each of these works of the stand-in takes so many steps, and notes its begin and its end."""

    def work(name, count, ends):
        def steps_of(*given):
            order.append(f"{name} begins")
            for _ in range(count):
                yield
            yield from ends(*given)
            order.append(f"{name} ends")

        return steps_of

    for name, count in steps.items():
        setattr(world.hosted, name, work(name, count, getattr(world.hosted, name)))


def test_roles_of_another_registration_begin_when_those_before_have_ended():
    """Taking turns, an old role in the same leader epoch passed for the new one and was ended: nothing was copied then."""

    async def main():
        world, order = World(has_peers=True), []
        await world.create("a", 2)
        slow(world, order, resigning=30, following=0)
        world.following.registration_lost()
        world.following.caught_up_again()
        world.following.registration_lost()
        world.following.caught_up_again()
        await asyncio.wait_for(world.following._has_roles.wait(), 5)
        resigned = [one for one in order if one.startswith("resigning")]
        assert order == [*resigned, "following begins", "following ends"]
        assert sorted(resigned) == ["resigning begins"] * 2 + ["resigning ends"] * 2

    asyncio.run(main())


def test_a_lost_registration_ends_the_taking_of_its_roles():
    """The roles left are of a registration that has ended, and a start goes on with those of the next one."""

    async def main():
        world, order = World(has_peers=True), []
        await world.create("a", 2)
        slow(world, order, following=30)
        world.following.registration_lost()
        world.following.caught_up_again()
        await asyncio.sleep(0)
        world.following.registration_lost()
        for _ in range(50):
            await asyncio.sleep(0)
        assert order == ["following begins"]
        assert not world.following._has_roles.is_set()
        world.following.caught_up_again()
        await asyncio.wait_for(world.following._has_roles.wait(), 5)
        assert order == ["following begins", "following begins", "following ends"]

    asyncio.run(main())


def test_a_resignation_that_fails_keeps_no_role_from_its_partition(caplog):
    """The mistake is logged, and the roles of the next registration begin."""

    async def main():
        world = World(has_peers=True)
        await world.create("a", 2)

        def failing():
            yield
            raise RuntimeError("a mistake")

        world.hosted.resigning = failing
        world.following.registration_lost()
        world.following.caught_up_again()
        await asyncio.wait_for(world.following._has_roles.wait(), 5)
        assert "not every leadership could be ended" in caplog.text

    asyncio.run(main())
