"""The texts of a row and of the summary, over all that a partition can look like."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.http.tier_rows import (
    STATES,
    BrokerFacts,
    PartitionFacts,
    RunningUpload,
    Spans,
    Totals,
    Trash,
    row,
    spans,
    summary,
)
from stratalog.broker.workers.watch import WorkerState

OFFSETS = st.integers(0, 40)
TIMES = st.none() | st.integers(0, 1000)


@st.composite
def partitions(draw, tiered=None):
    """Any partition, also those that should never be: borders in any order."""
    start = draw(OFFSETS)
    return PartitionFacts(
        topic=draw(st.sampled_from(["a", "b"])),
        partition=draw(st.integers(0, 3)),
        tiered=draw(st.booleans()) if tiered is None else tiered,
        state=draw(st.sampled_from(sorted(STATES))),
        log_start=start,
        local_start=draw(OFFSETS),
        remote_start=draw(OFFSETS),
        remote_end=draw(OFFSETS),
        active_start=draw(OFFSETS),
        log_end=start + draw(OFFSETS),
        local_bytes=draw(OFFSETS),
        remote_bytes=draw(OFFSETS),
        objects=draw(OFFSETS),
        waiting_bytes=draw(OFFSETS),
        waiting_since_ms=draw(TIMES),
        risk_since_ms=draw(TIMES),
        due_end=draw(OFFSETS | st.just(2**63 - 1)),
        copying=draw(st.booleans()),
        trash=Trash(*(draw(OFFSETS) for _ in Trash._fields)),
    )


def facts(**changes):
    """An ordinary tiered partition: 100 evicted, 200 in both places, 300 waiting, 50 in the active segment."""
    ordinary = PartitionFacts("orders", 1, True, "held", 0, 100, 0, 300, 600, 650, 5000, 3000, 4, 2500, 70, 70, 300)
    return ordinary._replace(**changes)


def broker_facts(**changes):
    ordinary = BrokerFacts(1000, "file:///b", None, 900, "", 10, 100, 30, 10, 1, 2, 3, 800, (), 0)
    return ordinary._replace(**changes)


def place(one: PartitionFacts, offset: int) -> str:
    """Where one offset is, by the words of the module."""
    local = offset >= one.local_start
    remote = one.remote_start <= offset < one.remote_end
    if local and remote:
        return "both"
    if remote:
        return "remote"
    if not local:
        return "missing"
    due = one.tiered and one.copying and offset < one.active_start and offset < one.due_end
    return "waiting" if due else "local"


@pytest.mark.story
@given(partitions())
def test_every_offset_is_in_exactly_one_span(one):
    """Counted one by one, they give the same numbers."""
    counted = Counter(place(one, offset) for offset in range(one.log_start, one.log_end))
    assert spans(one) == Spans(**{name: counted[name] for name in Spans._fields})
    assert sum(spans(one)) == one.log_end - one.log_start


def test_an_ordinary_partition():
    """The picture of the module, in numbers."""
    said = row(facts())
    assert said["spans"] == {"remote": 100, "both": 200, "waiting": 300, "local": 50, "missing": 0}
    assert said["lag"] == {"offsets": 300, "bytes": 2500, "since_ms": 70}
    assert said["at_risk"] == {"offset": 300, "since_ms": 70}
    assert said["problem"] is None
    assert said["state_text"] == "archiving"


def test_a_topic_that_is_not_tiered_is_all_local_and_at_no_risk_of_ours():
    """It was not meant to be in the bucket."""
    said = row(facts(tiered=False, state="local", local_start=0, remote_end=0, waiting_since_ms=None))
    assert said["spans"] == {"remote": 0, "both": 0, "waiting": 0, "local": 650, "missing": 0}
    assert said["at_risk"] is None
    assert said["lag"]["offsets"] == 0
    assert said["read_back_end"] is None


def test_segments_held_back_or_switched_off_do_not_wait():
    """A copy lag leaves it at risk, because it is meant for the bucket; switched off it is not."""
    held_back = row(facts(due_end=400))
    assert held_back["spans"] == {"remote": 100, "both": 200, "waiting": 100, "local": 250, "missing": 0}
    assert held_back["at_risk"]["offset"] == 300
    off = row(facts(copying=False))
    assert (off["spans"]["waiting"], off["spans"]["local"], off["at_risk"]) == (0, 350, None)
    assert off["state_text"] == "copying to the bucket is switched off"
    assert "another broker" in row(facts(copying=False, state="fenced"))["state_text"]


def test_an_empty_and_a_fully_archived_partition_have_nothing_at_risk():
    """The offset at risk is always one that exists."""
    assert row(facts(log_start=0, local_start=0, remote_end=0, active_start=0, log_end=0))["at_risk"] is None
    assert row(facts(remote_end=650, active_start=650))["at_risk"] is None


@given(partitions())
def test_the_figures_of_a_row_agree(one):
    """Lag only where something waits, risk only below the log end, a problem wherever offsets are missing."""
    said = row(one)
    assert (said["lag"]["offsets"] > 0) >= (said["lag"]["bytes"] > 0)
    assert said["lag"]["offsets"] == said["spans"]["waiting"]
    if said["at_risk"] is not None:
        assert one.tiered
        assert one.log_start <= said["at_risk"]["offset"] < one.log_end
    if (said["spans"]["missing"] and one.state != "checking") or one.state in {"fenced", "quarantined"}:
        assert said["problem"]


def test_a_problem_names_its_cause():
    """The broker's own knowledge comes first."""
    assert "200 offsets below 500" in row(facts(local_start=500, log_end=700))["problem"]
    assert row(facts(local_start=500, log_end=700, state="checking"))["problem"] is None
    assert "another broker" in row(facts(state="fenced"))["problem"]
    assert row(facts(state="fenced", trouble="the disk is gone"))["problem"] == "the disk is gone"


@pytest.mark.story
@given(st.lists(partitions(), max_size=6))
def test_totals_are_those_of_the_tiered_partitions(many):
    """Added one by one in any order; the oldest risk is the oldest of all."""
    rows = [row(one) for one in many]
    totals, backwards = Totals(), Totals()
    for one in rows:
        totals.add(one)
    for one in reversed(rows):
        backwards.add(one)
    said, tiered = summary(broker_facts(), totals), [one for one in rows if one["tiered"]]
    assert said["partitions"] == len(rows)
    assert said["tiered_partitions"] == len(tiered)
    assert said["tiered_topics"] == len({one["topic"] for one in tiered})
    assert said["lag"]["offsets"] == sum(one["lag"]["offsets"] for one in tiered)
    assert said["trash"] == {name: sum(one["trash"][name] for one in tiered) for name in Trash._fields}
    assert said["local_bytes"] == sum(one["local_bytes"] for one in tiered)
    risks = [one["at_risk"]["since_ms"] for one in tiered if one["at_risk"] and one["at_risk"]["since_ms"] is not None]
    assert (None if said["at_risk"] is None else said["at_risk"]["since_ms"]) == min(risks, default=None)
    other = summary(broker_facts(), backwards)
    assert {**said, "at_risk": None} == {**other, "at_risk": None}


def test_the_state_of_the_bucket_is_what_its_last_answers_were():
    """Unused until it is first asked, failing while it fails, with the error."""
    failing = broker_facts(failing_since_ms=950, last_error="connection refused")
    assert summary(broker_facts(answered_ms=None), Totals())["bucket"]["state"] == "unused"
    assert summary(broker_facts(), Totals())["bucket"]["state"] == "ok"
    bucket = summary(failing, Totals())["bucket"]
    assert (bucket["state"], bucket["failing_since_ms"], bucket["last_error"]) == ("failing", 950, "connection refused")


def test_a_worker_that_hangs_is_a_problem():
    """Beside those of partitions, with its sentence."""
    well = summary(broker_facts(), Totals())
    assert (well["worker"], well["problems"]) == ({"oldest_command_seconds": 0.0, "hangs": 0, "problem": ""}, 0)
    hung = summary(broker_facts(worker=WorkerState("io", 31.26, 1, "the io worker hung")), Totals())
    expected = {"oldest_command_seconds": 31.3, "hangs": 1, "problem": "the io worker hung"}
    assert (hung["worker"], hung["problems"]) == (expected, 1)


def test_a_hit_rate_needs_a_read():
    """None is not 0 %."""
    assert summary(broker_facts(), Totals())["cache"]["hit_rate"] == 0.75
    assert summary(broker_facts(cache_hits=0, cache_misses=0), Totals())["cache"]["hit_rate"] is None


def test_running_uploads_are_named():
    """With their offsets and bytes."""
    running = RunningUpload("orders", 1, 0, 10, 100, 990)
    said = summary(broker_facts(uploads=(running,), uploads_waiting=2), Totals())["uploads"]
    assert said == {"running": [running._asdict()], "waiting": 2}
