"""Rows of answers, encoded as they are made."""

import pytest

from stratalog.broker.requests import answer_rows
from stratalog.broker.requests.answer_rows import AnswerRows
from stratalog.broker.runtime.slices import to_the_end
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from stratalog.wire.schema import encode_bytes


def coordinator(number):
    return Coordinator(key=f"key-{number}", node_id=1, host="h", port=9092)


@pytest.mark.parametrize("version", [4, 6])
def test_the_same_bytes_as_a_list(version):
    """The answer does not tell how it was made."""
    rows = AnswerRows(FindCoordinatorResponse, version, "coordinators")
    plain = [coordinator(number) for number in range(3000)]
    for one in plain:
        to_the_end(rows.add(one))

    def answer(coordinators):
        return FindCoordinatorResponse(node_id=0, host="", port=0, coordinators=coordinators)

    assert encode_bytes(answer(rows.close()), version) == encode_bytes(answer(plain), version)


def test_an_answer_that_grows_too_large_is_refused(monkeypatch):
    """Before it is made as a whole, with a sentence that says what to do."""
    monkeypatch.setattr(answer_rows, "ANSWER_BYTES_MAX", 100)
    rows = AnswerRows(FindCoordinatorResponse, 6, "coordinators")
    for number in range(5):
        to_the_end(rows.add(coordinator(number)))
    with pytest.raises(KafkaError, match=r"more than 100 bytes after 6 entries of .* ask for fewer") as raised:
        to_the_end(rows.add(coordinator(6)))
    assert raised.value.code is ErrorCode.INVALID_REQUEST
