"""The lines of ``/readyz?verbose`` and ``/metrics`` about archives that are in trouble while the broker serves."""

import itertools
from types import SimpleNamespace

from stratalog.broker.archive.bucket_health import BucketState
from stratalog.broker.archive.problems import add_problem_metrics, archive_problems, bucket_problems, first_of
from stratalog.broker.runtime.clock import SystemClock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.runtime.slices import to_the_end
from stratalog.broker.workers.watch import WorkerState


def archive(*, lost=False, reason="", fenced=False, log_end=0, archived=0):
    """As much of an `Archive` as is looked at."""
    unified = SimpleNamespace(topic_partition="f-0", log=SimpleNamespace(log_end_offset=log_end))
    return SimpleNamespace(lost=lost, lost_reason=reason, fenced=fenced, unified=unified, archived_end=archived)


def test_lost_archives_and_waiting_partitions_are_reported():
    """Each with its reason; what is well is not named, nor what was lost and is found again."""
    waiting = [(SimpleNamespace(topic_partition="a-0"), SimpleNamespace(waits_for="no answer"))]
    told = to_the_end(
        archive_problems([archive(lost=True, reason="t-1: gone"), archive(reason="t-2: was gone")], waiting)
    )
    assert told == ["the archive is lost: t-1: gone", "a-0 waits for its archive before it serves: no answer"]


def test_thousands_of_problems_are_a_few_lines():
    """A bucket that is gone takes every partition with it."""
    told = first_of([f"problem {number}" for number in range(10_000)])
    assert told[:2] == ["problem 0", "problem 1"]
    assert told[-1] == "and 9980 more like the last"
    assert len(told) == 21


def test_lost_partitions_are_counted():
    """Those of the moment, also when partitions come and go."""
    metrics, archives, times = Metrics(), [], itertools.count(0.0)
    clock = SimpleNamespace(monotonic=lambda: next(times))
    add_problem_metrics(metrics, archives, lambda: BucketState("ok", None, ""), clock)
    assert b"stratalog_tier_lost_partitions 0" in metrics.render()
    archives += [archive(lost=True), archive(), archive(lost=True)]
    assert b"stratalog_tier_lost_partitions 2" in metrics.render()


def test_a_silent_bucket_and_a_hanging_worker_are_reported():
    """Each in a sentence; neither while all is well."""
    well, hung = WorkerState("io", 0.0, 0, ""), WorkerState("io", 40.0, 1, "the io worker hung")
    assert bucket_problems(BucketState("ok", None, "an old error"), well, 10_000) == []
    failing = BucketState("failing", 3_000, "connection refused")
    told = ["the bucket has not answered for 7 s: connection refused", "the io worker hung"]
    assert bucket_problems(failing, hung, 10_000) == told


def test_whether_the_bucket_is_up_is_a_gauge():
    """Without a sample as long as nothing was asked."""
    metrics, states = Metrics(), [BucketState("unused", None, "")]
    add_problem_metrics(metrics, [], lambda: states[-1], SystemClock())
    name = b"\nstratalog_tier_bucket_up "
    assert name not in metrics.render()
    for state, value in (("ok", b"1.0"), ("failing", b"0.0")):
        states.append(BucketState(state, None, ""))
        assert name + value in metrics.render()


def test_acknowledgements_of_a_fenced_broker_are_reported_and_counted():
    """It is archived nowhere; a fenced log with nothing beyond its archive is no problem."""
    archives = [
        archive(fenced=True, log_end=120, archived=100),
        archive(fenced=True, log_end=100, archived=100),
        archive(log_end=50),
    ]
    told = to_the_end(archive_problems(archives, []))
    assert len(told) == 1
    assert told[0].startswith("f-0: another owner has its archive: 20 offsets from 100 on")
    metrics = Metrics()
    add_problem_metrics(metrics, archives, lambda: BucketState("unused", None, ""), SystemClock())
    assert b"stratalog_tier_fenced_offsets 20" in metrics.render()
