"""The registration of a controller, step by step."""

from math import inf

import pytest

from stratalog.broker.lifecycle.controller_enrolment import (
    UNSEEN_MS,
    Accepted,
    ControllerEnrolment,
    Enrol,
    Failed,
    ImageSeen,
    LeaderChanged,
    Ticked,
)


@pytest.fixture
def machine():
    return ControllerEnrolment(lambda: 0.5)


def test_a_controller_registers_when_the_level_is_known_and_has_a_record_for_it(machine):
    """Once; the images that come before the record is applied change nothing."""
    assert machine.step(ImageSeen(0, has_incarnation=False), 0) == []
    assert machine.step(ImageSeen(14, has_incarnation=False), 0) == []
    assert machine.step(ImageSeen(15, has_incarnation=False), 0) == [Enrol(1)]
    assert machine.step(ImageSeen(15, has_incarnation=False), 1) == []
    machine.step(Accepted(1), 2)
    assert machine.step(ImageSeen(15, has_incarnation=False), 3) == []
    assert machine.step(LeaderChanged(), 3) == []
    assert machine.step(ImageSeen(15, has_incarnation=True), 4) == []
    assert machine.wake_at_ms == inf
    assert machine.step(Ticked(), 5) == []


def test_a_failure_is_repeated_after_growing_waits_or_by_the_next_leader(machine):
    """Answers of earlier requests are dropped."""
    machine.step(ImageSeen(30, has_incarnation=False), 0)
    machine.step(Failed(1), 0)
    assert machine.wake_at_ms == 100
    assert machine.step(ImageSeen(30, has_incarnation=False), 50) == []
    assert machine.step(Ticked(), 99) == []
    assert machine.step(Ticked(), 100) == [Enrol(2)]
    assert machine.step(Failed(1), 100) == []
    machine.step(Failed(2), 100)
    assert machine.wake_at_ms == 300
    assert machine.step(LeaderChanged(), 110) == [Enrol(3)]
    assert machine.step(LeaderChanged(), 110) == []


def test_another_incarnation_in_the_image_is_replaced(machine):
    """That of a process before, whose request was late."""
    machine.step(ImageSeen(30, has_incarnation=False), 0)
    machine.step(ImageSeen(30, has_incarnation=True), 0)
    machine.step(Accepted(1), 1)
    assert machine.wake_at_ms == inf
    assert machine.step(ImageSeen(30, has_incarnation=False), 2) == [Enrol(2)]
    machine.step(ImageSeen(30, has_incarnation=True), 3)
    machine.step(Failed(2), 4)
    assert machine.wake_at_ms == inf


def test_an_accepted_registration_that_never_shows_is_sent_again(machine):
    """A record in the log comes; one that was replaced at once does not."""
    machine.step(ImageSeen(30, has_incarnation=False), 0)
    machine.step(Accepted(1), 10)
    assert machine.wake_at_ms == 10 + UNSEEN_MS
    assert machine.step(Ticked(), 10 + UNSEEN_MS) == [Enrol(2)]
