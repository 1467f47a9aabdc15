"""No legal request keeps the event loop: the longest turn, in CPU time of the loop's thread, of requests that ask for much.

All APIs at 10,000 topics are measured by ``make bench CELLS=loop-turn``; here are the worst of them, smaller.
"""

import gc
import time
from contextlib import contextmanager

import pytest

from bench.cells.loop_turns import LONG_PATHS, LoopTurns, fill, longest_turn, longest_turn_of_page
from bench.worst.requests import ELEMENTS, Worst, worst_requests
from stratalog.broker.embedded import EmbeddedBroker, LoopThread
from stratalog.client.link import BrokerLink
from stratalog.metadata.access.acl_rules import AclRule
from stratalog.metadata.controller.acls import create_acls
from stratalog.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from stratalog.wire.messages.describe_acls import DescribeAclsRequest
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

TURN_MS_MAX = 80
"""The bound is 50 ms on a quiet machine; what is guarded against took from 170 ms to 20 s."""

NAMES = [f"topic-{number}" for number in range(ELEMENTS)]
ASKED = (
    "DescribeConfigs v4: 9,900 groups",
    "DescribeConfigs v4: this broker, 100 pipelined",
    "CreateTopics v7: validates 9,900",
    "DeleteTopics v6: 9,900 absent topics",
    "OffsetFetch v8: 9,900 groups, all topics",
)
COSTLIEST = ("CreateTopics v7: validates 9,900", "DescribeConfigs v4: 9,900 groups")
"""Those that run with `make test-stories`."""


def quietest(link: BrokerLink, turns: LoopTurns, worst: Worst, wanted_ms: float) -> tuple[float, int]:
    """The longest turn in ms and the answer's bytes, asked at most four times: other work on the machine only adds."""
    tries = []
    while len(tries) < 4 and not (tries and min(tries)[0] < wanted_ms):
        tries.append(longest_turn(link, turns, worst))
    return min(tries)


@contextmanager
def timed_broker(directory, settings=None):
    """A broker, its loop's turns, and the thread of that loop."""
    thread = LoopThread()
    turns = LoopTurns()
    turns.watch(thread)
    broker = EmbeddedBroker(str(directory), thread, settings).start()
    yield broker, turns, thread
    broker.discard()
    thread.close()


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A broker whose turns are timed, and its port."""
    with timed_broker(tmp_path_factory.mktemp("turns")) as (broker, turns, _):
        with BrokerLink("127.0.0.1", broker.port) as link:
            link.call(FindCoordinatorRequest(key="", coordinator_keys=["g"]))
        yield turns, broker.port


@pytest.fixture(scope="module")
def worst():
    """The requests by their names; some 40 lists of 9,900 elements."""
    return {one.name: one for one in worst_requests(NAMES)}


@pytest.mark.parametrize(
    "asked", [pytest.param(name, marks=pytest.mark.story if name in COSTLIEST else ()) for name in ASKED]
)
def test_no_turn_is_long(measured, worst, asked):
    """The answer comes; meanwhile others had their turns."""
    turns, port = measured
    gc.collect()
    gc.freeze()
    with BrokerLink("127.0.0.1", port, timeout_seconds=60) as link:
        longest_ms, size = quietest(link, turns, worst[asked], TURN_MS_MAX)
    assert size > 100_000
    assert longest_ms < TURN_MS_MAX


PAGE_TOPICS = 2_000


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A broker with 2,000 topics whose turns are timed."""
    with timed_broker(tmp_path_factory.mktemp("filled")) as (broker, turns, _):
        with BrokerLink("127.0.0.1", broker.port, timeout_seconds=60) as link:
            fill(link, PAGE_TOPICS)
        yield turns, broker


@pytest.mark.story
@pytest.mark.parametrize("path", LONG_PATHS)
def test_no_turn_is_long_for_the_http_port(filled, path):
    """A scrape of 2,000 topics was one turn of 200 ms, in which no record was written or read."""
    turns, broker = filled
    gc.collect()
    gc.freeze()
    longest_ms, size = min(longest_turn_of_page(broker, turns, path) for _ in range(3))
    assert size > (100_000 if path in {"/metrics", "/tier/status", "/v1/tier"} else 1)
    assert longest_ms < GUARDED_TURN_MS_MAX


RULE_COUNT = 60_000
GUARDED_TURN_MS_MAX = 40
"""With as many rules it took 45 to 110 ms without slices, and takes under 20 ms."""
EVERY_RULE = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
NO_RULE = {**EVERY_RULE, "permission_type": 2}
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def rules():
    """Half about topics of their own, half about one topic from addresses of their own; all may describe it all."""
    for number in range(RULE_COUNT // 2):
        yield AclRule(2, f"t{number}", 3, f"User:u{number % 50}", "*", 3, 3)
        yield AclRule(2, "t", 3, "User:a", f"10.0.{number >> 8}.{number & 255}", 3, 3)
    yield AclRule(4, "kafka-cluster", 3, "User:ANONYMOUS", "*", 2, 3)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A broker whose turns are timed, with thousands of rules that concern no caller; and its port."""
    settings = {"authorizer.class.name": AUTHORIZER, "super.users": "User:owner"}
    with timed_broker(tmp_path_factory.mktemp("guarded"), settings) as (broker, turns, thread):
        control, new_id = broker.node.control, broker.node.new_topic_id
        every = list(rules())
        for start in range(0, len(every), 5_000):
            some = every[start : start + 5_000]
            thread.run(lambda some=some: control.execute(lambda image: create_acls(image, some, new_id)))
        yield turns, broker, thread


@pytest.mark.slow
@pytest.mark.parametrize(
    "worst",
    [
        pytest.param(one, id=one.name)
        for one in (
            Worst("every rule", DescribeAclsRequest(**EVERY_RULE), 3),
            Worst("no rule", DeleteAclsRequest(filters=[DeleteAclsFilter(**NO_RULE) for _ in range(20)]), 3),
            Worst(
                "creates 9,900 it may not see",
                MetadataRequest(
                    topics=[MetadataRequestTopic(name=f"{n:0249}", topic_id=bytes(16)) for n in range(ELEMENTS)],
                    allow_auto_topic_creation=True,
                ),
                13,
            ),
        )
    ],
)
def test_no_turn_is_long_with_many_rules(guarded, worst: Worst):
    """Listing rules and asking them both stay below the limit of a turn."""
    turns, broker, _ = guarded
    gc.collect()
    gc.freeze()
    try:
        with BrokerLink("127.0.0.1", broker.port, timeout_seconds=60) as link:
            longest_ms, _ = quietest(link, turns, worst, GUARDED_TURN_MS_MAX)
    finally:
        gc.unfreeze()
    assert longest_ms < GUARDED_TURN_MS_MAX


@pytest.mark.slow
def test_no_turn_is_long_where_a_snapshot_is_written(guarded):
    """The records of the image are made in slices, too."""
    turns, broker, thread = guarded
    quorum = broker.node.quorum
    snapshotting, replica = quorum.snapshotting, quorum.replica
    before = len(replica.snapshots())
    gc.collect()
    gc.freeze()
    turns.reset()

    async def write():
        snapshotting.grown(1 << 40)
        snapshotting.published()

    async def is_due():
        return snapshotting.is_due

    try:
        thread.run(write)
        deadline = time.monotonic() + 60
        while thread.run(is_due) and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        gc.unfreeze()
    assert len(replica.snapshots()) >= max(1, before)
    assert turns.total_ms > TURN_MS_MAX
    assert turns.longest_ms < TURN_MS_MAX
