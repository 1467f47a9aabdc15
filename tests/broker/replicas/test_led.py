"""The reasons for which a partition is led."""

import pytest

from stratalog.broker.replicas.led import Led, why_led, why_opened
from stratalog.metadata.image.topics_image import LeaderRecovery, PartitionImage


def state(recovery, replicas=(1, 2)):
    return PartitionImage(replicas, (1,), 1, leader_recovery=recovery)


@pytest.mark.parametrize(
    ("replicas", "was_led", "led"),
    [((1, 2), False, Led.TAKEN_OVER), ((1, 2), True, Led.RENEWED), ((1,), False, Led.RENEWED)],
)
def test_a_clean_leader_has_everything_and_one_that_was_elected_uncleanly_may_not(replicas, was_led, led):
    """It makes no difference for the second that it led before: others may have led in between."""
    assert why_led(state(LeaderRecovery.RECOVERED, replicas), was_led=was_led) is led
    assert why_led(state(LeaderRecovery.RECOVERING, replicas), was_led=was_led) is Led.UNCLEAN


def test_a_log_that_began_anew_without_a_leader_is_led_as_one_that_was_lost():
    """Its archive has the say over where it goes on. With other replicas its leader had."""
    assert why_led(state(LeaderRecovery.RECOVERED, (1,)), was_led=False, is_bare=True) is Led.LOST
    assert why_led(state(LeaderRecovery.RECOVERED), was_led=False, is_bare=True) is Led.TAKEN_OVER


@pytest.mark.parametrize("opened", [Led.CREATED, Led.OPENED, Led.LOST])
def test_a_start_as_an_unclean_leader(opened):
    """It had not recovered before the start, also if its log is begun anew."""
    assert why_opened(state(LeaderRecovery.RECOVERED), opened) is opened
    assert why_opened(state(LeaderRecovery.RECOVERING), opened) is (Led.LOST if opened is Led.LOST else Led.UNCLEAN)
