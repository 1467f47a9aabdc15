"""The life of a broker whose log directories fail."""

from stratalog.broker.lifecycle.lifecycle_events import (
    DirectoryFailed,
    DirectoryLeft,
    End,
    Ended,
    Register,
    Registered,
    RegistrationChanged,
    Unanswered,
)
from tests.broker.lifecycle.test_broker_lifecycle import DIRECTORY, Told


def test_a_failed_directory_is_reported_at_once_and_from_then_on():
    """If it cannot be reported in time the broker ends: others would wait for its replicas there."""
    told = Told().run()
    told.do(DirectoryFailed(DIRECTORY))
    assert told.sent.offline_directories == (DIRECTORY,)
    sent = told.sent
    told.answer()
    told.do(DirectoryFailed(DIRECTORY))
    assert told.sent is sent
    told.wait(2000)
    assert told.sent.offline_directories == (DIRECTORY,)
    told.answer()
    failed_ms, ended = told.now_ms, []
    told.do(DirectoryFailed(b"e" * 16))
    while not ended:
        told.do(Unanswered(told.sent.number))
        _, ended = told.wait(40_000)
    assert ended == [Ended(End.DIRECTORY_NOT_REPORTED, 0)]
    assert told.now_ms == failed_ms + 30_000


def test_a_failed_directory_is_reported_before_the_registration_is_sent_again():
    """Without that its replicas there would stay in sync: the registration no longer names it."""
    told = Told().run()
    told.do(DirectoryFailed(DIRECTORY))
    told.do(RegistrationChanged())
    told.do(Unanswered(told.sent.number))
    assert told.sent.offline_directories == (DIRECTORY,)
    assert told.answer() == []
    assert isinstance(told.sent, Register)


def test_a_failed_directory_that_is_held_is_reported_when_the_controller_knows_what_lies_elsewhere():
    """No registration hides it meanwhile, and the broker ends as ever if it cannot be reported in time."""
    told = Told().run()
    told.do(DirectoryFailed(DIRECTORY, is_held=True))
    told.do(RegistrationChanged())
    assert told.sent.offline_directories == ()
    told.answer()
    sent = told.sent
    assert (told.wait(1000), told.sent) == (([], []), sent), "no heartbeat follows the other at once"
    told.do(DirectoryLeft(DIRECTORY))
    assert told.sent.number == sent.number + 1
    assert told.sent.offline_directories == (DIRECTORY,)
    told.answer()
    assert isinstance(told.sent, Register)
    told.do(Registered(told.sent.number, 7, told.image))
    told.answer()
    failed_ms, ended = told.now_ms, []
    told.do(DirectoryFailed(b"e" * 16, is_held=True))
    while not ended:
        _, ended = told.wait(40_000)
        if not ended:
            told.answer()
    assert ended == [Ended(End.DIRECTORY_NOT_REPORTED, 0)]
    assert told.now_ms == failed_ms + 30_000
