"""One answer out of many."""

from types import SimpleNamespace

import pytest

from stratalog.broker.coordinators.gather import Gather
from stratalog.broker.requests.dispatch import PENDING
from stratalog.wire.errors import ErrorCode, KafkaError


@pytest.fixture
def gathered():
    """A gathering whose answer is the list of its parts' answers, and where the answer goes."""
    answers = []
    return Gather(SimpleNamespace(respond=answers.append), list), answers


def test_parts_keep_their_order(gathered):
    """Whichever answers first; the whole leaves with the last."""
    gather, answers = gathered
    first, second = gather.part(str), gather.part(str)
    gather.answered("known")
    assert gather.close() is PENDING
    second.respond("b")
    assert answers == []
    first.respond("a")
    assert answers == [["a", "b", "known"]]


def test_answers_that_come_at_once(gathered):
    """The whole waits until every part has its token."""
    gather, answers = gathered
    gather.part(str).respond("a")
    gather.part(str).respond("b")
    assert answers == []
    gather.close()
    assert answers == [["a", "b"]]


def test_an_empty_request_has_an_empty_answer(gathered):
    """The answer comes with the close, as it does for a full request."""
    gather, answers = gathered
    gather.close()
    assert answers == [[]]


def test_a_part_fails(gathered):
    """With its own answer; what is no answer of Kafka's is UNKNOWN_SERVER_ERROR."""
    gather, answers = gathered
    gather.part(lambda error: error.code).fail(KafkaError(ErrorCode.NOT_COORDINATOR))
    gather.part(lambda error: error.code).fail(OSError("disk"))
    gather.close()
    assert answers == [[ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_SERVER_ERROR]]
