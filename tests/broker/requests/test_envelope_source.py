"""A client in an envelope, in the place of a connection."""

from types import SimpleNamespace

import pytest

from stratalog.broker.requests.envelope_source import EnvelopeSource
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.frame import ResponseSlot


class Slot(ResponseSlot):
    """The context of a request."""


class Carrier(SimpleNamespace):
    """One connection is not another, whatever they have in common."""

    __hash__ = object.__hash__


@pytest.fixture
def carrier():
    """The connection of a broker."""
    held = []
    return Carrier(
        peer="10.0.0.9:1 on CONTROLLER",
        listener="L",
        read_at=5.0,
        elements_max=7,
        tags_max=3,
        closed=False,
        quota_of=lambda client: ("quota", client.principal, client.client_id),
        held=held,
        hold=lambda: held.append("hold"),
        release=lambda: held.append("release"),
        gone=lambda: False,
    )


@pytest.fixture
def answers():
    """The answers that the source has passed on."""
    return []


@pytest.fixture
def source(carrier, answers):
    """A client behind the broker."""
    return EnvelopeSource(carrier, "User:a", "1.2.3.4", lambda *outcome: answers.append(outcome))


def test_it_is_the_client_not_the_broker(source):
    """Its own principal, address and quota; the limits of the carrier."""
    assert (source.principal, source.host, source.elements_max, source.tags_max) == ("User:a", "1.2.3.4", 7, 3)
    assert source.peer == "1.2.3.4 through 10.0.0.9:1 on CONTROLLER"
    source.identify("me", b"me")
    assert source.quota == ("quota", "User:a", "me")
    assert source.quota_of(source) == source.quota
    assert source.authenticated


def test_an_answer_at_once_is_the_outcome(source, answers):
    """Once: a second one would be the answer of another request."""
    source.answer(Slot(), [b"frame"])
    source.refuse("late")
    source.abandon()
    assert answers == [([b"frame"], None)]
    assert source.closed


def test_a_parked_answer_follows(source, answers):
    """With the error of a request that has failed."""
    slot = Slot()
    source.park(slot)
    source.deliver()
    assert answers == []
    slot.parts, slot.failure = [b"frame"], KafkaError(ErrorCode.NOT_CONTROLLER)
    source.deliver()
    assert answers == [([b"frame"], slot.failure)]


def test_a_slot_that_has_its_answer_when_it_is_parked_is_delivered(source, answers):
    """A handler may answer before it returns."""
    slot = Slot()
    slot.parts = [b"x"]
    source.park(slot)
    assert answers == [([b"x"], None)]


def test_a_refused_request_has_no_answer(source, answers, caplog):
    """One line says which client was meant, through which broker."""
    source.refuse("CreateTopics v7 cannot be decoded")
    assert answers == [(None, None)]
    assert "1.2.3.4 through 10.0.0.9:1 on CONTROLLER is refused: CreateTopics v7" in caplog.text


def test_an_answer_of_no_bytes_counts_as_none(source, answers):
    """There is nothing that could be put into the envelope."""
    source.answer(Slot(), [])
    assert answers == [(None, None)]


def test_work_is_ended_with_the_carrier(source, answers):
    """The request's own task hears of it; an answer that comes all the same goes nowhere."""
    ended = []
    slot = Slot()
    slot.on_abandon = lambda: ended.append(True)
    source.park(slot)
    source.abandon()
    source.abandon()
    assert ended == [True]
    slot.parts = [b"x"]
    source.deliver()
    assert answers == []


def test_abandoning_before_anything_was_parked_is_harmless(source, answers):
    """There is no task yet."""
    source.abandon()
    assert answers == []


def test_requests_of_one_client_have_one_share(carrier):
    """Turns at the controller are given by source: by carrier, principal and address."""
    one, same = (EnvelopeSource(carrier, "User:a", "h", print) for _ in range(2))
    assert one == same
    assert hash(one) == hash(same)
    assert one != EnvelopeSource(carrier, "User:b", "h", print)
    assert one != EnvelopeSource(carrier, "User:a", "g", print)
    assert one != carrier


def test_sliced_work_holds_the_carrier(source, carrier):
    """The broker's connection is not read meanwhile, as if it had asked itself."""
    source.hold()
    source.release()
    assert carrier.held == ["hold", "release"]
    assert not source.gone()


def test_the_broker_mutes_its_client_not_the_controller(source):
    """The throttle time is computed from the time that is kept here."""
    source.mute_until(9.0)
    source.mute_until(7.0)
    assert source.muted_until == 9.0


def test_a_client_in_an_envelope_cannot_become_another(source):
    """It is who the envelope says."""
    with pytest.raises(RuntimeError, match="User:root"):
        source.authenticate("User:root")


def test_a_shortcut_ends_at_once(source):
    """There is no later request for it; a lease has nothing to keep."""
    ended = []
    source.remember(SimpleNamespace(end=lambda: ended.append(True)))
    source.remember(None)
    source.look()
    source.lease()()
    assert ended == [True]
