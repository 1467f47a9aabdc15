"""The short form of the campaign: all nodes lose power under all clients; and a loss that is real is found."""

import pytest

from bench.faults.__main__ import UNSYNCED
from bench.faults.answers import ARE_LOST
from bench.faults.campaign import WORKLOADS, run

pytestmark = [pytest.mark.story, pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture
def outcome_of(tmp_path, capsys):
    """Runs faults on three nodes; the outcome."""

    def start(faults, workloads, *, seconds, settings=None):
        story = []
        outcome = run(
            tmp_path / "cluster",
            faults,
            workloads,
            seed=1,
            seconds=seconds,
            count=3,
            settings=settings or {},
            say=story.append,
        )
        print(*story, outcome.counts, sep="\n")
        return outcome

    return start


def test_records_that_were_acknowledged_outlive_a_power_cut_of_all_nodes(outcome_of):
    """Every workload goes on afterwards, and its replicas are equal."""
    outcome = outcome_of("power-3", list(WORKLOADS), seconds=8)
    assert outcome.counts["power-3"] >= 1
    assert outcome.all_violations == []
    assert min(cell.acknowledged for cell in outcome.cells.values()) > 0


def test_a_power_cut_of_all_nodes_that_did_not_sync_is_found_to_lose_records(outcome_of):
    """The same verdict can fail: with Kafka's flush default acknowledged records are in page caches only."""
    outcome = outcome_of("power-3", ["plain"], seconds=5, settings=UNSYNCED)
    assert outcome.counts["bytes dropped by power cuts"] > 0
    assert any(ARE_LOST in one for one in outcome.all_violations)
