"""Fetch sessions of clients that name more partitions than a broker keeps for them."""

from stratalog.metadata.fetch_sessions.fetch_session import LASTING_LOOKS_MAX
from stratalog.wire.errors import ErrorCode
from tests.broker.fetches.test_fetch_sessions import Consumer


def test_a_session_that_gathers_more_than_a_request_may_name_ends(start_node):
    """Its client goes on with full fetches; what it had named is no longer kept, nor watched."""
    broker = start_node(stratalog_request_elements_max=1000)
    broker.create("t")
    consumer = Consumer(broker, "t")
    consumer.offsets |= dict.fromkeys(range(1001), 0)
    consumer.poll(*range(1, 501))
    consumer.poll(*range(501, 1000))
    assert broker.node.fetch_sessions.cache.partition_count == 1000
    assert len(consumer.poll()) == LASTING_LOOKS_MAX
    assert consumer.link.call(consumer.request(1000), 18).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert broker.node.fetch_sessions.cache.partition_count == 0
    assert not [one for one in broker.partition("t").partition.watchers if hasattr(one, "session")]


def test_partitions_of_all_sessions_together_are_limited(start_node):
    """The largest session makes room for a smaller one; a client without room goes on with full fetches."""
    broker = start_node()
    broker.create("t", 3)
    cache = broker.node.fetch_sessions.cache
    cache._partitions_max = 5
    first, second = Consumer(broker, "t", 0, 1, 2), Consumer(broker, "t", 0, 1)
    assert (first.session_id > 0, second.session_id > 0) == (True, True)
    assert Consumer(broker, "t", 0, 1, 2).session_id == 0
    assert Consumer(broker, "t", 0).session_id > 0
    assert first.error() == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(cache), cache.partition_count, cache.eviction_count) == (2, 3, 1)
