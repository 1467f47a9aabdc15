"""One attempt to ask the active controller, judged."""

import pytest

from stratalog.broker.forwarding.outcomes import BACKOFF_MS, Ending, after_answer, after_envelope, after_error
from stratalog.broker.peers.peer_errors import (
    Peer,
    PeerBusy,
    PeerClosed,
    PeerTimeout,
    PeerUnavailable,
    PeerUnsupported,
)
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from stratalog.wire.messages.elect_leaders import ElectLeadersResponse
from stratalog.wire.messages.envelope import EnvelopeResponse

PEER = Peer(1, "h", 9)


def test_an_envelope_without_error_is_done():
    """The answer in it is the client's."""
    assert after_envelope(EnvelopeResponse(response_data=b"abcd", error_code=0)).ending is Ending.DONE


def test_another_controller_is_asked_after_not_controller():
    """Also for this node's own requests, at whatever depth the error stands."""
    assert after_envelope(EnvelopeResponse(response_data=None, error_code=41)).ending is Ending.ELSEWHERE
    deep = CreateTopicsResponse(topics=[CreatableTopicResult(name="a"), CreatableTopicResult(name="b", error_code=41)])
    assert after_answer(deep).ending is Ending.ELSEWHERE
    assert after_answer(ElectLeadersResponse(error_code=41, replica_election_results=[])).ending is Ending.ELSEWHERE


def test_other_errors_in_an_answer_are_answers():
    """They are for the one who asked."""
    failed = CreateTopicsResponse(topics=[CreatableTopicResult(name="a", error_code=36)])
    assert after_answer(failed).ending is Ending.DONE


def test_a_request_that_the_controller_cannot_read_costs_the_client_its_connection():
    """As in Kafka: the client learns the versions anew."""
    assert after_envelope(EnvelopeResponse(response_data=None, error_code=35)).ending is Ending.RECONNECT


@pytest.mark.parametrize(("code", "data"), [(31, None), (97, None), (42, None), (-1, None), (9999, None), (0, None)])
def test_other_errors_of_the_envelope_are_not_the_clients(code, data):
    """UNKNOWN_SERVER_ERROR, with the envelope's error in the text."""
    verdict = after_envelope(EnvelopeResponse(response_data=data, error_code=code))
    assert verdict.ending is Ending.FAIL
    assert verdict.error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert (ErrorCode(code).name if code != 9999 else "9999") in verdict.error.message


@pytest.mark.parametrize("kind", [PeerUnavailable, PeerBusy])
def test_an_attempt_without_an_answer_is_repeated_while_there_is_time(kind):
    """Then the request has timed out."""
    assert after_error(kind(PEER, "gone"), BACKOFF_MS + 1).ending is Ending.AGAIN
    verdict = after_error(kind(PEER, "gone"), BACKOFF_MS)
    assert (verdict.ending, verdict.error.code) == (Ending.FAIL, ErrorCode.REQUEST_TIMED_OUT)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (PeerTimeout, ErrorCode.REQUEST_TIMED_OUT),
        (PeerUnsupported, ErrorCode.UNKNOWN_SERVER_ERROR),
        (PeerClosed, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_some_attempts_are_the_last(kind, code):
    """The text names the controller and the reason."""
    verdict = after_error(kind(PEER, "why"), 50_000)
    assert (verdict.ending, verdict.error.code) == (Ending.FAIL, code)
    assert "node 1 (h:9): why" in verdict.error.message
