"""Expressions are matched beside the loop, within a budget, and remembered."""

import asyncio
import itertools
import time
from types import SimpleNamespace

import pytest

from stratalog.broker.coordinators import pattern_library
from stratalog.broker.coordinators.pattern_library import PatternLibrary
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest
from stratalog.wire.messages.list_transactions import ListTransactionsRequest

SLOW = "((a?){30}){30}"
LONG = ["a" * 240 + str(number) for number in range(2_000)]


def find(node, kind, key):
    """Wait until a key has a coordinator; a connection to it."""
    link, request = node.link(), FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    end = time.perf_counter() + 30
    while link.call(request, 6).coordinators[0].error_code:
        assert time.perf_counter() < end
        time.sleep(0.01)
    return link


def topics(*names):
    return SimpleNamespace(by_name=dict.fromkeys(names))


def entries_of(library):
    """The names in all sets that a library remembers, counted anew."""
    known = library._known.values()
    examined = {id(one.examined): len(one.examined) for one in known}
    return sum(examined.values()) + sum(len(one.matching) for one in known)


@pytest.fixture
def library():
    one = PatternLibrary(time.perf_counter)
    yield one
    one.close()


async def test_matches_are_known_after_the_first_question(library):
    """The first question gives None; later ones give matches until a new name comes. Fewer names need no thread."""
    three = topics("a1", "a2", "b")
    assert library.matching("a.*", three) is None
    await library._learning["a.*"]
    await asyncio.sleep(0)
    assert library.matching("a.*", three) == {"a1", "a2"}
    assert library.matching("a.*", topics("a1", "b")) == {"a1"}
    four = topics("a1", "a3", "b")
    assert library.matching("a.*", four) is None
    await library._learning["a.*"]
    assert library.matching("a.*", four) == {"a1", "a3"}


async def test_simultaneous_questions_are_not_mixed_up(library):
    """Some topics, and fewer, are looked at while others are."""
    every = [topics("a1", "a2", "b"), topics("a1"), topics("a1", "a2", "a3"), topics("b")]
    for order in itertools.permutations(every):
        await library.learn("a.*", every[0])
        await asyncio.gather(*(library.learn("a.*", one) for one in order))
        for one in every:
            await library.learn("a.*", one)
            assert library.matching("a.*", one) == {name for name in one.by_name if name.startswith("a")}


@pytest.mark.story
async def test_the_loop_goes_on_while_an_expression_takes_long(library, monkeypatch):
    """One that takes more than its budget is refused; no turn of the loop waits for it."""
    monkeypatch.setattr(pattern_library, "_SECONDS_MAX", 0.5)
    task = asyncio.create_task(library.learn(SLOW, topics(*LONG)))
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    with pytest.raises(KafkaError, match=r"takes more than 0\.5 s .* 2000 names") as caught:
        await task
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert turns > 50
    assert not library.knows(SLOW)


async def test_an_expression_of_a_log_that_cannot_be_used_is_tried_once(library):
    """Its group keeps what it knew: nothing is said of what it matches."""
    one = topics("a")
    assert library.matching("(", one) is None
    await library._learning["("]
    assert library.matching("(", one) is None
    await asyncio.sleep(0)
    assert not library._learning


async def test_an_expression_that_was_given_up_once_is_matched_with_new_topics_after_its_client_asked_again(
    library, monkeypatch
):
    """A busy machine may keep the thread waiting for longer than the budget: that says little of the expression."""
    monkeypatch.setattr(pattern_library, "_SECONDS_MAX", -1.0)
    assert library.matching("a.*", topics("a1")) is None
    await library._learning["a.*"]
    monkeypatch.undo()
    await asyncio.sleep(0)
    assert library.matching("a.*", topics("a1")) is None
    assert not library._learning
    await library.learn("a.*", topics("a1"))
    two = topics("a1", "a2")
    assert library.matching("a.*", two) is None
    await library._learning["a.*"]
    assert library.matching("a.*", two) == {"a1", "a2"}


async def test_memory_and_waiting_are_bounded(library, monkeypatch):
    """The oldest are forgotten; too many at once have to come again."""
    monkeypatch.setattr(pattern_library, "_REMEMBERED_MAX", 3)
    monkeypatch.setattr(pattern_library, "_ENTRIES_MAX", 10)
    three = topics("a", "b", "c")
    for number in range(10):
        await library.learn(f"[abc]|{number}", three)
        assert len(library._known) <= 3
        assert library._entries == entries_of(library) <= 10
    assert library.knows("[abc]|9")
    monkeypatch.setattr(pattern_library, "_WAITING_MAX", 2)
    outcomes = await asyncio.gather(
        *(library.learn(f"x{number}", three) for number in range(5)), return_exceptions=True
    )
    codes = [getattr(outcome, "code", None) for outcome in outcomes]
    assert codes.count(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) == 3


async def test_the_names_that_were_looked_at_count_once_for_each_set_of_topics(library, monkeypatch):
    """Expressions that are not asked for again keep the names of topics of that time: those use memory, too."""
    monkeypatch.setattr(pattern_library, "_ENTRIES_MAX", 400)
    for number in range(60):
        now = topics(*(f"t{name}" for name in range(100 + number)))
        await library.learn(f"none{number}", now)
        await library.learn(f"t{number}", now)
        assert library._entries == entries_of(library) <= 400
    assert library.matching("t59", now) == {"t59"}
    fewer = topics("t58", "t59")
    assert library.matching("t59", fewer) == {"t59"}
    assert library.matching("t58", fewer) == {"t58"}
    assert library._entries == entries_of(library)


async def ask(library, pattern, names):
    """Ask as a group does, and let the thread learn."""
    found = library.matching(pattern, names)
    if (task := library._learning.get(pattern)) is not None:
        await task
        await asyncio.sleep(0)
    return found


async def test_an_answer_is_kept_for_the_group_that_asked(library, monkeypatch):
    """With more expressions than are remembered each group has its own answer, sooner or later."""
    monkeypatch.setattr(pattern_library, "_REMEMBERED_MAX", 3)
    two = topics("a", "b")
    waiting = {f"a|{number}" for number in range(10)}
    for _ in range(5):
        for pattern in sorted(waiting):
            if await ask(library, pattern, two) == {"a"}:
                waiting.remove(pattern)
            assert len(library._known) <= 4
    assert waiting == set()
    await ask(library, "a|new", two)
    for number in range(5):  # clients that come with expressions of their own
        await library.learn(f"b|{number}", two)
    assert library.matching("a|new", two) == {"a"}


async def test_an_answer_is_not_kept_for_a_group_that_is_gone(monkeypatch):
    """Topics that have come meanwhile end it as well: the next look learns the answer anew."""
    now = [0.0]
    library = PatternLibrary(lambda: now[0])
    monkeypatch.setattr(pattern_library, "_REMEMBERED_MAX", 2)
    one = topics("a")
    for pattern in ("a|1", "a|2"):
        await ask(library, pattern, one)
    two = topics("a", "b")
    assert await ask(library, "a|1", two) is None
    assert await ask(library, "a|1", two) == {"a"}
    await ask(library, "a|1x", two)
    assert await ask(library, "a|3", two) is await ask(library, "a|3", two) is None
    now[0] = 61.0
    assert await ask(library, "a|3", two) is None
    assert await ask(library, "a|3", two) == {"a"}
    library.close()


async def test_the_expression_asked_for_longest_ago_is_forgotten(library, monkeypatch):
    """Not the one that was learned first."""
    monkeypatch.setattr(pattern_library, "_REMEMBERED_MAX", 2)
    one = topics("a")
    await library.learn("a|1", one)
    await library.learn("a|2", one)
    assert library.matching("a|1", one) == {"a"}
    await library.learn("a|3", one)
    assert [library.knows(f"a|{number}") for number in (1, 2, 3)] == [True, False, True]


def test_a_group_subscribes_by_expression(start_node):
    """The first answer comes when it is known what matches; a topic that is made later is found, too."""
    node = start_node()
    node.create("orders-1")
    numbers = itertools.count()

    def join(pattern):
        request = ConsumerGroupHeartbeatRequest(
            group_id=f"g{next(numbers)}",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=[],
            subscribed_topic_regex=pattern,
            topic_partitions=[],
        )
        end = time.perf_counter() + 30
        while (answer := link.call(request, 1)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            assert time.perf_counter() < end
        return answer

    link = find(node, 0, "g0")
    answer = join("orders-.*")
    assert answer.error_code == 0
    assert len(answer.assignment.topic_partitions) == 1
    assert join("(").error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    node.create("orders-2")
    assert len(join("orders-.*|x").assignment.topic_partitions) == 2


def test_transactional_ids_are_matched_beside_the_loop(start_node):
    """Whole ids, as before."""
    node = start_node()
    link = find(node, 1, "pay-1")
    for name in ("pay-1", "pay-2", "other"):
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000)
        end = time.perf_counter() + 30
        while link.call(request, 4).error_code:
            assert time.perf_counter() < end
            time.sleep(0.01)
    asked = ListTransactionsRequest(state_filters=[], producer_id_filters=[], transactional_id_pattern="pay-.*")
    found = node.link().call(asked, 2)
    assert sorted(one.transactional_id for one in found.transaction_states) == ["pay-1", "pay-2"]
    asked.transactional_id_pattern = "("
    assert node.link().call(asked, 2).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
