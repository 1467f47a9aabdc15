import pickle

from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.workers.channel import (
    Kind,
    WorkerError,
    WorkerMessage,
    WorkerMessages,
    decode_error,
    encode_error,
    encode_message,
)
from stratalog.wire.errors import Invalid

MESSAGES = st.lists(
    st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.sampled_from(Kind), st.binary(max_size=50)),
    max_size=5,
)


@given(MESSAGES, st.integers(1, 40))
def test_messages_survive_any_cutting_of_the_stream(sent, step):
    """Encoded messages come out whole and in order, however the bytes arrive."""
    stream = b"".join(encode_message(*message) for message in sent)
    reader = WorkerMessages()
    received = []
    for position in range(0, len(stream), step):
        received += reader.feed(stream[position : position + step])
    assert [(m.incarnation, m.request_id, m.kind, m.load()) for m in received] == sent


def test_exceptions_travel_as_themselves_where_they_can():
    """A picklable exception keeps its type; any other becomes a WorkerError with its text."""
    reader = WorkerMessages()
    (message,) = reader.feed(encode_error(1, 2, Invalid("why")))
    error = decode_error(message)
    assert (type(error), str(error)) == (Invalid, "why")

    class Local(Exception):
        pass

    (message,) = reader.feed(encode_error(1, 2, Local("text")))
    error = decode_error(message)
    assert (type(error), str(error)) == (WorkerError, "Local: text")


def test_an_error_that_cannot_be_loaded_is_still_an_error():
    """Garbage, and objects that are no exceptions, become WorkerErrors."""
    assert "could not be loaded" in str(decode_error(WorkerMessage(1, 2, Kind.ERROR, b"\x80garbage")))
    assert "17" in str(decode_error(WorkerMessage(1, 2, Kind.ERROR, pickle.dumps(17))))
