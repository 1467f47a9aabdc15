"""A long reader of the bucket and a broker whose retention goes on: what was planned stays until the reader is done."""

import pytest

from stratalog.spark.source.fetch import ReadRequest, read_slices
from stratalog.spark.source.options import parse_options
from stratalog.spark.source.read_lease import take_lease
from stratalog.spark.source.read_plan import plan
from stratalog.tier.manifests.leases import end_lease
from stratalog.wire.errors import StratalogError


@pytest.fixture
def tiered(start_tiered):
    """A broker that empties the trash at once."""
    tiered = start_tiered(stratalog_trash_check_interval_ms="50", stratalog_trash_grace_ms="0")
    tiered.topic("t", retention_bytes=-1)
    tiered.write("t", 60)
    tiered.archived("t")
    return tiered


def rows(tiered, tasks):
    """The values that all tasks read."""
    request = ReadRequest(columns=("value",))
    batches = [batch for task in tasks for batch in read_slices(tiered.memory, task, request)]
    return [value for batch in batches for value in batch.column("value").to_pylist()]


@pytest.mark.parametrize("leased", [True, False])
def test_a_plan_is_read_in_peace(tiered, leased):
    """Retention takes away what is planned, the grace is over, a new leader comes: with a lease all of it is read."""
    ticket = take_lease(tiered.memory, 3_600_000) if leased else None
    tasks = plan(tiered.memory, parse_options({"path": "s3://b", "subscribe": "t", "lease": "false"}), 2)
    planned = [value for offset, _, value in tiered.written["t", 0] if offset < tiered.manifest("t").remote_end]
    tiered.configure("t", retention_bytes=2_000)
    tiered.node.wait_until(lambda: tiered.manifest("t").trash or tiered.manifest("t").log_start_offset > 200)
    if not leased:
        tiered.node.wait_until(lambda: not tiered.manifest("t").trash)
        with pytest.raises(StratalogError):
            rows(tiered, tasks)
        return
    tiered.node.restart()
    tiered.write("t", 10)
    tiered.archived("t")
    listed = tiered.node.run(lambda: tiered.node.node.tiering._requests["list"])
    tiered.node.wait_until(lambda: tiered.node.node.tiering._requests["list"] > listed + 2)  # it was asked, and held
    assert rows(tiered, tasks) == planned
    end_lease(tiered.memory, ticket.uuid)
    tiered.node.wait_until(lambda: not tiered.manifest("t").trash)
    tiered.check_bucket("t", orphans=False)
