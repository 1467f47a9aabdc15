"""Answers of writes that are not committed yet."""

from stratalog.broker.coordinators.batching import Marker
from stratalog.broker.coordinators.under_way import answer, fail, refuse
from stratalog.metadata.coordination import CoordinatorRecord, Reply, Write
from stratalog.wire.errors import ErrorCode, KafkaError

ERROR = KafkaError(ErrorCode.NOT_COORDINATOR, "a test")


def test_an_answer_may_be_an_error(events):
    """A request is answered, or fails."""
    tokens = [events.Token() for _ in range(3)]
    answer(Reply(tokens[0], "done"))
    answer(Reply(tokens[1], ERROR))
    fail([Reply(tokens[2], "done")], ERROR)
    assert [token.answers for token in tokens] == [["done"], [ErrorCode.NOT_COORDINATOR], [ErrorCode.NOT_COORDINATOR]]


def test_all_that_wait_for_refused_writes_and_markers_hear_of_it(events):
    """Each once, with the error."""
    token, heard = events.Token(), []
    write = Write([CoordinatorRecord(b"k", b"v")], [Reply(token, "done")])
    refuse([write, Marker(bytearray(b"m"), 2, "event", heard.append)], ERROR)
    assert (token.answers, heard) == ([ErrorCode.NOT_COORDINATOR], [ERROR])
