"""Turns: fair by client and cost, none lost, none for ever."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.control.command_turns import CommandTurns


class Queue:
    """Turns that are ended by hand, in the order in which they begin."""

    def __init__(self, at_once=1):
        self.turns = CommandTurns(at_once)
        self.begun = []
        self.ends = {}
        self.tasks = {}

    async def ask(self, name, source, cost):
        self.ends[name] = asyncio.Event()

        async def turn():
            async with self.turns.turn(source, cost):
                self.begun.append(name)
                await self.ends[name].wait()

        self.tasks[name] = asyncio.ensure_future(turn())
        await settle()

    async def end(self, name):
        self.ends[name].set()
        await settle()

    async def end_all(self):
        """End every turn as soon as it begins."""
        at = 0
        while at < len(self.begun):
            await self.end(self.begun[at])
            at += 1
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        return self.begun


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_short_turn_comes_before_long_ones_of_others():
    """It waits for the turn that is under way, and for no other."""
    queue = Queue()
    for client in range(8):
        await queue.ask(f"long-{client}", client, 9900)
    await queue.ask("short", "else", 101)
    assert (await queue.end_all())[:2] == ["long-0", "short"]


async def test_a_client_with_many_turns_does_not_come_before_others():
    """Its second turn is due after the first one of another client, however early it was asked for."""
    queue = Queue()
    await queue.ask("under way", "first", 100)
    for number in range(5):
        await queue.ask(f"greedy-{number}", "greedy", 100)
    await queue.ask("modest", "modest", 100)
    assert (await queue.end_all())[:3] == ["under way", "greedy-0", "modest"]


async def test_a_long_turn_does_not_wait_for_ever():
    """New clients come with a short turn each, again and again; the long one begins all the same."""
    queue = Queue()
    await queue.ask("0", 0, 100)
    await queue.ask("long", "long", 10_000)
    for number in range(1, 400):
        await queue.ask(f"{number}", number, 100)
        await queue.end(f"{number - 1}")
        if "long" in queue.begun:
            break
    assert 50 < len(queue.begun) < 250
    await queue.end_all()


@pytest.mark.parametrize("rounds", range(4))
async def test_a_leaving_client_gives_the_turn_on(rounds):
    """Cancelled while it waits, in the round of the loop in which it begins or one beside it, while it is under way."""
    queue = Queue()
    for name in "abcd":
        await queue.ask(name, name, 1)
    assert len(queue.turns) == 3
    queue.tasks["b"].cancel()
    await settle()
    queue.ends["a"].set()
    for _ in range(rounds):
        await asyncio.sleep(0)
    queue.tasks["c"].cancel()
    await settle()
    assert queue.begun[-1] == "d"
    queue.tasks["d"].cancel()
    await settle()
    await queue.ask("e", "e", 1)
    assert queue.begun[-1] == "e"
    await queue.end_all()
    assert len(queue.turns) == 0


async def test_debts_of_clients_that_left_are_forgotten():
    """Thousands of clients with one turn each leave nothing behind, even if the queue never empties."""
    queue = Queue()
    await queue.ask("0", 0, 100)
    for number in range(1, 1300):
        await queue.ask(f"{number}", number, 100)
        await queue.end(f"{number - 1}")
    assert len(queue.turns._due) <= 1001
    await queue.end_all()
    assert not queue.turns._due


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, 3), st.integers(1, 10_000)),
        st.tuples(st.sampled_from(["end", "cancel"]), st.integers(0, 30), st.just(0)),
    ),
    max_size=40,
)


@pytest.mark.story
@given(steps=STEPS, at_once=st.integers(1, 3))
def test_no_turn_is_lost_and_never_too_many_are_under_way(steps, at_once):
    """Clients ask, end and leave in any order: all that stay have their turn in the end, with ``at_once`` at a time."""

    async def story():
        queue = Queue(at_once)
        under_way = most = 0

        async def turn(source, cost, end):
            nonlocal under_way, most
            async with queue.turns.turn(source, cost):
                under_way += 1
                most = max(most, under_way)
                try:
                    await end.wait()
                finally:
                    under_way -= 1

        turns = []
        for what, number, cost in steps:
            if what == "ask":
                end = asyncio.Event()
                turns.append((asyncio.ensure_future(turn(number, cost, end)), end))
            elif turns:
                task, end = turns[number % len(turns)]
                if what == "end":
                    end.set()
                else:
                    task.cancel()
            await asyncio.sleep(0)
        for _, end in turns:
            end.set()
        outcomes = await asyncio.wait_for(asyncio.gather(*(task for task, _ in turns), return_exceptions=True), 5)
        assert most <= at_once
        assert all(one is None or isinstance(one, asyncio.CancelledError) for one in outcomes)
        assert len(queue.turns) == 0

    asyncio.run(story())


@pytest.mark.parametrize("cost", [1, 10_000])
async def test_without_others_a_turn_begins_at_once(cost):
    """No matter what it costs, and what its client had before."""
    turns = CommandTurns(1)
    for _ in range(3):
        async with asyncio.timeout(1), turns.turn("client", cost):
            assert len(turns) == 0
