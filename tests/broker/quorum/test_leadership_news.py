"""News of who leads."""

import asyncio

from stratalog.broker.quorum.leadership import LeaderAndEpoch
from stratalog.broker.quorum.leadership_news import LeadershipNews


async def test_each_change_is_announced_once():
    """A leader that becomes active is a change; the same word again is none."""
    news, heard = LeadershipNews(), []
    news.follow(lambda leader, is_active: heard.append((leader.leader_id, leader.epoch, is_active)))
    for leader_id, epoch, is_active in [(1, 3, False), (1, 3, False), (1, 3, True), (-1, 4, False), (-1, 4, False)]:
        news.announce(LeaderAndEpoch(leader_id, epoch), is_active)
    assert heard == [(1, 3, False), (1, 3, True), (-1, 4, False)]


async def test_all_who_wait_wake_with_the_next_word_also_without_a_change():
    """They look for themselves; one who has left meanwhile harms no other."""
    news = LeadershipNews()
    waits = [asyncio.ensure_future(news.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waits[1].cancel()
    news.announce(LeaderAndEpoch(), False)
    await asyncio.wait(waits, timeout=1)
    assert [wait.done() for wait in waits] == [True] * 3


async def test_a_wait_ends_with_what_it_waits_for_or_with_its_time():
    """Each word is a reason to look."""
    news, holds = LeadershipNews(), []
    waiting = asyncio.ensure_future(news.wait_until(lambda: bool(holds), 60))
    for _ in range(2):
        await asyncio.sleep(0)
        news.wake()
    assert not waiting.done()
    holds.append(1)
    news.wake()
    await waiting
    await news.wait_until(lambda: False, 0.001)
