"""Queries are answered while a command of another client has its turn.

Times beside 8 clients with 9,900 topics in each of their commands: ``make bench CELLS=command-wait``.
"""

import asyncio

import pytest

from bench.cells.command_waits import absent_topics, short_waits_ms, validated_topics
from bench.worst.of_cluster import add_cluster
from bench.worst.of_topics import add_topics
from stratalog.broker.embedded import EmbeddedBroker, LoopThread
from stratalog.client.link import BrokerLink

SIZE = 300
NAMES = [f"topic-{number}" for number in range(SIZE)]
ASKED = {"AlterClientQuotas", "AlterConfigs", "CreatePartitions", "CreateTopics", "IncrementalAlterConfigs"}


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    """A broker in this process, and its thread."""
    thread = LoopThread()
    broker = EmbeddedBroker(str(tmp_path_factory.mktemp("waits")), thread).start()
    yield broker, thread
    broker.discard()
    thread.close()


@pytest.fixture
def busy(embedded):
    """The port of a broker whose controller carries out a command of another client, without an end."""
    broker, thread = embedded
    over, begun = asyncio.Event(), asyncio.Event()

    async def command():
        async with broker.node.control._turns.turn("another", 1):
            begun.set()
            await over.wait()

    command_done = asyncio.run_coroutine_threadsafe(command(), thread.loop)
    asyncio.run_coroutine_threadsafe(begun.wait(), thread.loop).result(5)
    yield broker.port
    thread.loop.call_soon_threadsafe(over.set)
    command_done.result(5)


def validating():
    """Requests of every API that validates, with thousands of things."""
    found = []

    def add(what, message, *versions, pipelined=1):
        if what.startswith("validates"):
            found.append(message)

    add_topics(add, NAMES, NAMES, NAMES)
    add_cluster(add, NAMES, NAMES)
    assert {type(one).__name__.removesuffix("Request") for one in found} == ASKED
    return found


@pytest.mark.story
@pytest.mark.parametrize("request_", [*validating(), absent_topics(0, SIZE)], ids=lambda one: type(one).__name__)
def test_requests_that_change_nothing_do_not_wait_for_a_command(busy, request_):
    """Commands that validate, and one about topics that do not exist."""
    with BrokerLink("127.0.0.1", busy, timeout_seconds=20) as link:
        link.send(request_, type(request_).versions[1])
        assert len(link.receive_answer()) > SIZE


def test_the_bench_sends_what_it_says(embedded):
    """Short commands succeed beside long ones, and are timed."""
    waits, done = short_waits_ms(embedded[0].port, 2, validated_topics, size=SIZE, count=4)
    assert len(waits) == 4
    assert done >= 2
    assert min(waits) > 0
