"""The time until another controller answers, of the calls of a client."""

import pytest

from bench.cells.failover import _Call, _Creator


def after(signalled, *calls):
    creator = _Creator(0, "t")
    creator.calls = [_Call(*call) for call in calls]
    return creator.answered_after(signalled)


def test_it_is_the_first_answer_behind_the_signal_or_the_longest_wait():
    """The controller that stops may answer some calls first."""
    calls = [(0.9, 1.0, ""), (1.0, 1.1, ""), (1.1, 1.4, ""), (1.4, 1.5, "")]
    assert after(1.0, *calls) == pytest.approx(0.3)
    assert after(1.05, (1.0, 1.2, ""), (1.2, 1.3, "")) == pytest.approx(0.25)


def test_refusals_are_no_answers():
    """And a client without any has measured nothing."""
    assert after(1.0, (1.0, 1.1, "36 exists"), (1.1, 1.3, "")) == pytest.approx(0.3)
    assert after(1.0, (0.9, 1.1, ""), (1.1, 1.2, "")) == pytest.approx(0.2)
    with pytest.raises(SystemExit, match="no topic was created after the signal: 7 late"):
        after(1.0, (1.0, 1.1, "7 late"))
