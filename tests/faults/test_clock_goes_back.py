"""The wall clock is set back by years while the broker works: uploads, reads and removals go on as if it were not."""

from pathlib import Path

import pytest

from stratalog.broker.runtime.clock import SystemClock
from stratalog.client.records import fetch
from stratalog.tier.stores.faulty_store import Fault, FaultRule
from stratalog.wire.errors import KafkaError
from stratalog.wire.topic import TopicPartition

YEARS_MS = 20 * 365 * 86_400_000


class SetClock(SystemClock):
    """The machine's clock, set by hand."""

    def __init__(self):
        self.ahead_ms = 0

    def wall_ms(self):
        return super().wall_ms() + self.ahead_ms


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def start(start_tiered, clock):
    """Starts a tiered broker under the clock."""

    def begin(**settings):
        made = start_tiered(start=False, **settings)
        made.node.ports["clock"] = clock
        made.node.start()
        return made

    return begin


def test_failed_uploads_are_tried_again(start, clock):
    """They wait for time that passes, not for a date."""
    backoff = dict.fromkeys(
        ("remote_log_manager_task_retry_backoff_ms", "remote_log_manager_task_retry_backoff_max_ms"), "1000"
    )
    tiered = start(**backoff)
    tiered.topic("t")
    tiered.spoil(FaultRule(Fault.FAIL_BEFORE, count=None))
    tiered.write("t", 20)
    plan = tiered.node.node.tiering._archives[tiered.node.partition("t")]._plan
    tiered.node.wait_until(lambda: plan._claim.failures and not plan._claim.busy)
    clock.ahead_ms -= YEARS_MS
    tiered.spoil()
    tiered.archived("t")
    tiered.check_bucket("t")
    tiered.check_reads("t")


@pytest.mark.story
def test_a_range_that_could_not_be_read_is_read_again(start, clock):
    """An error is remembered for a second, not until a date."""
    tiered = start()
    tiered.topic("t")
    tiered.write("t", 20)
    tiered.archived("t")
    entry = tiered.manifest("t").entries[1]
    data = tiered.memory.get(entry.key)[0]
    tiered.memory.delete_many([entry.key])
    remote = tiered.node.partition("t").remote
    with pytest.raises(KafkaError):
        read_until_refused(tiered, entry.base)
    assert remote._errors
    clock.ahead_ms -= YEARS_MS
    tiered.replace(entry.key, data)
    tiered.node.wait_until(lambda: readable(remote))
    tiered.check_reads("t")


def read_until_refused(tiered, offset):
    """Fetch until the answer is an error."""
    for _ in range(100):
        fetch(tiered.node.client(), {TopicPartition("t", 0): offset}, max_wait_ms=100)


def readable(remote):
    """Whether every error is forgotten."""
    for what in list(remote._errors._errors):
        try:
            remote._errors.raise_for(what)
        except KafkaError:
            return False
    return True


@pytest.mark.story
def test_removed_segments_leave_the_disk(start, clock):
    """``file.delete.delay.ms`` after they were renamed."""
    tiered = start()
    tiered.topic("t", file_delete_delay_ms=1000)
    tiered.write("t", 20)
    log = tiered.node.run(lambda: tiered.node.partition("t").log)
    doomed = log._parts.doomed
    tiered.node.wait_until(lambda: doomed.waiting and doomed.waiting[-1][1] is not None)
    clock.ahead_ms -= YEARS_MS
    tiered.archived("t")
    tiered.node.wait_until(lambda: not doomed.waiting and not list(Path(log.directory).glob("*.deleted")))
