"""The next steps: the deciding functions asked without effect, against a running broker."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stratalog.broker.archive.plan_report import PlannedStep, planned_steps
from stratalog.client.admin import alter_topic_configs
from stratalog.tier.planning.upload_cost import removal_usage, upload_usage

TIERED = {
    "remote_storage_enable": "true",
    "internal_segment_bytes": 2000,
    "retention_ms": -1,
    "local_retention_ms": -1,
}
PART_BYTES = 16 << 20


@pytest.fixture
def broker(start_node):
    return start_node(log_flush_offset_checkpoint_interval_ms="100", log_retention_check_interval_ms="3600000")


def write(broker: Any, batches: int = 10) -> Any:
    for _ in range(batches):
        broker.produce("t", *[b"v" * 100] * 5)
    return broker.partition("t")


def archived(broker: Any) -> Any:
    unified = write(broker)
    broker.wait_until(lambda: unified.remote.end_offset == unified.log.active_base_offset > 0)
    archive, _ = broker.node.tiering.watched(unified)
    broker.wait_until(lambda: archive.evictable_offset == unified.remote.end_offset)
    return unified


def steps(broker: Any, unified: Any, now_ms: int | None = None, **settings: Any) -> list[PlannedStep]:
    """The plan, as if the topic had these settings."""

    def ask() -> list[PlannedStep]:
        archive, state = broker.node.tiering.watched(unified)
        held, unified.log.config = unified.log.config, replace(unified.log.config, **settings)
        try:
            return planned_steps(unified, archive, state, now_ms or broker.node.clock.wall_ms())
        finally:
            unified.log.config = held

    return broker.run(ask)


def test_a_topic_without_work_has_no_steps(broker):
    """All is archived, nothing has to leave."""
    broker.create("t", **TIERED)
    assert steps(broker, archived(broker)) == []


@pytest.mark.story
def test_a_waiting_step_names_its_reason(broker):
    """The first by its own reason, the others behind it; without the lag they would go."""
    broker.create("t", **TIERED, remote_copy_lag_ms=3_600_000)
    unified = write(broker)
    broker.wait_until(lambda: unified.log.active_base_offset > 0)
    found = steps(broker, unified)
    assert [step.action for step in found] == ["wait"] * len(found)
    assert found[0].why.startswith("remote.copy.lag: its newest record is ")
    assert {step.why for step in found[1:]} <= {"behind one that waits"}
    free = steps(broker, unified, remote_copy_lag_ms=0)
    assert [step.action for step in free] == ["upload"] * len(found)
    assert [step.start for step in free[1:]] == [step.end for step in free[:-1]]
    assert free[-1].end == unified.log.active_base_offset
    assert free[0].usage == upload_usage(free[0].size_bytes, PART_BYTES)
    stopped = steps(broker, unified, remote_copy_lag_ms=0, remote_copy_disable=True)
    assert stopped[0].why == "remote.log.copy.disable=true"
    alter_topic_configs(broker.client(), "t", set_to={"remote.copy.lag.ms": "0"})
    broker.wait_until(lambda: unified.remote.end_offset == free[-1].end)


@pytest.mark.story
def test_local_copies_would_go_by_local_retention(broker):
    """Those that are archived and read back, with the setting that wants it."""
    broker.create("t", **TIERED)
    unified = archived(broker)
    (step,) = steps(broker, unified, local_retention_bytes=2000)
    assert (step.action, step.start) == ("evict", 0)
    assert step.why == "archived, and local.retention.bytes=2000"
    local_bytes = unified.log.size_bytes
    assert 0 <= local_bytes - step.size_bytes - 2000 < 2000
    assert not step.usage


@pytest.mark.story
def test_the_archive_would_shrink_by_retention(broker):
    """Whole objects, counted once, and what their way through the trash costs."""
    broker.create("t", **TIERED)
    unified = archived(broker)
    entries = unified.remote.entries
    total = sum(entries.segment(index).data_bytes for index in range(len(entries)))
    found = steps(broker, unified, retention_bytes=total // 2, local_retention_ms=-1, local_retention_bytes=-1)
    (step,) = [one for one in found if one.action == "delete"]
    assert (step.start, step.count > 0) == (0, True)
    assert step.usage == removal_usage(step.count)
    assert "retention.bytes=" in step.why
    assert step.size_bytes == sum(entries.segment(index).data_bytes for index in range(step.count))
    assert unified.log.log_start_offset == 0


@pytest.mark.story
def test_trash_is_listed(start_node):
    """Until its grace is over."""
    broker = start_node(log_flush_offset_checkpoint_interval_ms="100", log_retention_check_interval_ms="100")
    broker.create("t", **TIERED)
    unified = archived(broker)
    alter_topic_configs(broker.client(), "t", set_to={"retention.bytes": "4000"})
    broker.wait_until(lambda: unified.remote.facts.trash_count > 0)
    found = [step for step in steps(broker, unified) if step.action == "trash"]
    assert [step.count for step in found] == [unified.remote.facts.trash_count]
    assert "stratalog.trash.grace.ms" in found[0].why
