from stratalog.wire.batch import iter_headers
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic


def fetch(node, link, *wanted, max_bytes=1 << 20, session_epoch=-1):
    """The answer for ``(partition, offset)`` pairs of topic ``t``, by name."""
    partitions = [
        FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20) for number, offset in wanted
    ]
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic="t", partitions=partitions)],
    )
    return link.call(request, 11)


def counts(answer):
    """How many batches of each partition came, in the order of the answer."""
    return [
        (one.partition_index, len(list(iter_headers(one.records or b"")))) for one in answer.responses[0].partitions
    ]


def test_partitions_are_filled_in_the_order_of_the_request(start_node, new_batch):
    """The first one with data gives a batch however small the limit,
    those behind it what still fits; all are answered.
    """
    node = start_node()
    node.create("t", 3)
    for number in (0, 1):
        for _ in range(2):
            node.append("t", new_batch(b"v"), partition=number)
    link = node.link()
    size_bytes = len(new_batch(b"v"))
    assert counts(fetch(node, link, (2, 0), (1, 0), (0, 0))) == [(2, 0), (1, 2), (0, 2)]
    assert counts(fetch(node, link, (2, 0), (1, 0), (0, 0), max_bytes=1)) == [(2, 0), (1, 1), (0, 0)]
    assert counts(fetch(node, link, (1, 0), (0, 0), max_bytes=3 * size_bytes)) == [(1, 2), (0, 1)]
    assert fetch(node, link, (0, 0)).session_id == 0
    assert fetch(node, link, (0, 0), session_epoch=0).session_id > 0


def test_a_partition_that_is_named_again_is_read_once(start_node, new_batch):
    """From where its last mention says, in the place of the first; also by ids, and in a session that begins."""
    node = start_node()
    topic_id = node.create("t", 2).topic_id
    for number in (0, 1):
        for _ in range(2):
            node.append("t", new_batch(b"v"), partition=number)
    link = node.link()
    assert counts(fetch(node, link, (1, 0), (0, 2), (1, 1), (1, 1))) == [(1, 1), (0, 0)]
    assert counts(fetch(node, link, (1, 0), (1, 1), session_epoch=0)) == [(1, 1)]
    wanted = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20) for offset in (0, 1)]
    topics = [FetchTopic(topic_id=topic_id, partitions=[one]) for one in wanted]
    answer = link.call(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), 13)
    assert (len(answer.responses), counts(answer)) == (1, [(0, 1)])
