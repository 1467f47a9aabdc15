"""A leader that was elected uncleanly: it recovers, and reports it."""

import pytest

from tests.broker.replicas.leader_rig import Bench


@pytest.fixture
def bench(tmp_path):
    """Makes a partition with settings of the test's own."""
    return lambda **options: Bench(str(tmp_path), **options)


def test_an_unclean_leader_reports_that_it_has_recovered_when_its_log_was_compared(bench):
    """Its set may never change, and it was RECOVERING for ever; while it is compared with its archive it is."""
    it = bench(replicas=(1, 2), in_sync=(1,))
    it.partition.lead(1, 5, replicas=(1, 2), in_sync=(1,), is_recovering=True)
    it.partition.held_back = "its archive is being compared with its local log"
    it.partition.tick(it.now)
    assert it.asking.asked == []
    it.partition.restarted()
    it.partition.held_back = None
    it.partition.tick(it.now)
    it.partition.tick(it.now)
    assert it.asking.asked == [(1,)]
    it.leader.in_sync_changed((1,), 1)
    it.partition.tick(it.now)
    assert it.asking.asked == [(1,)]


def test_a_leader_that_is_still_recovering_by_the_image_reports_it_again(bench):
    """Another change came in between, which did not say it."""
    it = bench(replicas=(1, 2), in_sync=(1,))
    it.partition.lead(1, 5, replicas=(1, 2), in_sync=(1,), is_recovering=True)
    it.partition.tick(it.now)
    it.leader.in_sync_changed((1,), 1, is_recovering=True)
    it.partition.tick(it.now)
    assert it.asking.asked == [(1,), (1,)]
