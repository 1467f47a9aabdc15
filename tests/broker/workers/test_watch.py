"""The watch over a worker: silence, commands that do not get on, starts that do not end; and never a sound worker."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.workers.watch import (
    SILENT_TICKS_MAX,
    START_ID,
    START_SECONDS_MAX,
    WORRYING_TICKS,
    WorkerState,
    WorkerWatch,
)


class Order:
    """A command that may take its time."""

    def __init__(self, patience=10.0):
        self.patience = patience
        self.partition = "t-0"


def watch():
    return WorkerWatch("io", lambda command: command.patience)


def ticks(one, count, *, running=True):
    """The first reason in so many ticks, and in which."""
    for number in range(1, count + 1):
        why = one.tick(running=running)
        if why:
            return number, why
    return None


def test_silence_while_commands_wait_is_logged_and_then_ends_the_process():
    """Five seconds are logged, thirty end it; the report stays until a command has been answered."""
    one = watch()
    one.sent(1, Order(), 100.0)
    assert ticks(one, WORRYING_TICKS - 1) is None
    assert one.state(104.0)[:4] == ("io", 4.0, 0, "")
    one.tick(running=True)
    assert "no sign of life for 5 s, 1 commands wait" in one.state(105.0).problem
    number, why = ticks(one, 100)
    assert number == SILENT_TICKS_MAX - WORRYING_TICKS
    assert why == "it has given no sign of life for 30 s"
    one.forgotten(1)
    one.started()
    state = one.state(131.0)
    assert (state.hangs, state.oldest_command_seconds) == (1, 0.0)
    assert "hung and was ended: it has given no sign of life for 30 s" in state.problem
    one.sent(2, Order(), 140.0)
    one.answered(2)
    assert one.state(141.0) == WorkerState("io", 0.0, 1, "")


def test_silence_counts_for_running_commands_and_then_for_all_that_wait():
    """Pulses say how long a command has not got on; ticks of silence come on top."""
    one = watch()
    first, second = Order(), Order()
    one.sent(1, first, 0.0)
    one.sent(2, second, 0.0)
    one.pulse({1: 2.0})
    assert one.state(2.0).idle == ((first, 2.0),)
    ticks(one, 3)
    assert one.state(5.0).idle == ((first, 5.0),)
    ticks(one, 2)
    assert one.state(7.0).idle == ((first, 7.0), (second, 5.0))


def test_a_command_that_does_not_get_on_ends_the_process_after_its_own_patience():
    """Though others get on; its kind and what it is about are named."""
    one = watch()
    one.sent(1, Order(1000.0), 0.0)
    one.sent(2, Order(10.0), 0.0)
    one.pulse({1: 999.0, 2: 10.0})
    assert one.tick(running=True) == ""
    one.pulse({1: 999.0, 2: 11.0})
    assert one.tick(running=True) == "Order of t-0 has not got on for 11 s"


def test_a_pulse_of_a_command_that_was_answered_meanwhile_says_nothing():
    """Messages cross on the way."""
    one = watch()
    one.sent(1, Order(), 0.0)
    one.sent(2, Order(), 0.0)
    one.answered(1)
    one.pulse({1: 1e6})
    assert one.tick(running=True) == ""


def test_a_start_that_does_not_end_ends_the_process():
    """Imports may hang, too; no command begins then."""
    one = watch()
    one.sent(1, Order(math.inf), 0.0)
    one.pulse({START_ID: START_SECONDS_MAX})
    assert one.tick(running=True) == ""
    one.pulse({START_ID: START_SECONDS_MAX + 1})
    assert "starting" in one.tick(running=True)


def test_a_worker_without_commands_or_without_a_process_is_not_watched():
    """Between its end and the next start nothing is silent."""
    one = watch()
    assert ticks(one, 1000) is None
    one.sent(1, Order(), 0.0)
    assert ticks(one, 1000, running=False) is None
    assert one.state(1000.0).oldest_command_seconds == 1000.0


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("send"), st.floats(1, 1e4)),
            st.tuples(st.just("answer"), st.integers(0, 5)),
            st.tuples(st.just("ticks"), st.integers(1, SILENT_TICKS_MAX - 1)),
        ),
        max_size=60,
    )
)
def test_a_worker_that_pulses_and_keeps_to_patience_is_never_given_up(events):
    """A pulse in time is enough, with any commands sent and answered in between."""
    one, sent, number = watch(), {}, 0
    for event, value in events:
        if event == "send":
            number += 1
            sent[number] = value
            one.sent(number, Order(value), 0.0)
        elif event == "answer" and sent:
            one.answered(sent.popitem()[0] if value else next(iter(sent)))
            sent = {each: sent[each] for each in sent if each in one._sent}
        elif event == "ticks":
            assert ticks(one, value) is None
            one.pulse(dict(list(sent.items())[:4]))
    assert one.hangs == 0
    assert one.outstanding == len(sent)
