"""Tests of broker/replication/copied_partition.py."""

import pytest

from stratalog.broker.replicas.log_position import LogPosition
from stratalog.broker.replication.copied_partition import CopiedPartition


@pytest.mark.parametrize(("field", "value"), [("is_busy", True), ("is_away", True), ("apart_bytes", 1)])
def test_a_copy_takes_while_it_is_busy_apart_or_away(field, value):
    """Each way of taking an answer keeps a second one from being taken at the same time."""
    copied = CopiedPartition(5, LogPosition(3, 4, 0))
    assert not copied.is_taking
    setattr(copied, field, value)
    assert copied.is_taking
