"""A bucket that is down, slow, or loses its answers: produce and hot reads go on, uploads resume, nothing stands twice."""

import random
import threading

import pytest

from stratalog.tier.stores.faulty_store import Fault, FaultRule

DOWN = FaultRule(Fault.FAIL_BEFORE, count=None)


@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.STALL])
def test_produce_and_hot_reads_go_on_while_the_bucket_is_down(tiered, fault):
    """No client waits for the bucket and no segment is evicted; when it is back, all of it is archived once."""
    tiered.topic("t")
    tiered.write("t", 12)
    tiered.archived("t")
    before = tiered.offsets("t")
    tiered.spoil(FaultRule(fault, count=None, seconds=0.05))
    for _ in range(10):
        tiered.write("t", 6)
        tiered.check_reads("t", 0, before[1])
    assert tiered.offsets("t")[:3] == before[:3]
    tiered.spoil()
    tiered.archived("t")
    tiered.check_bucket("t")
    tiered.check_reads("t")


@pytest.mark.story
@pytest.mark.parametrize("fault", [Fault.DROP_AFTER_COMMIT, Fault.FAIL_AFTER_COMMIT])
@pytest.mark.parametrize("operation", ["compare_and_swap", "put_if_absent"])
def test_an_answer_that_is_lost_commits_nothing_twice(tiered, fault, operation):
    """Work done before the answer was lost is recognised; unknown objects are only orphans."""
    tiered.topic("t")
    tiered.spoil(FaultRule(fault, operation, r"/(seg|manifest)", count=None, probability=0.5))
    tiered.write("t", 60)
    tiered.archived("t")
    assert tiered.bucket.injected
    tiered.spoil()
    tiered.check_bucket("t")
    tiered.check_reads("t")


def where(fault):
    """Which keys a fault may meet: whole objects are checked by the stores themselves, so none comes back damaged."""
    return r"\.seg" if fault in {Fault.CORRUPT, Fault.TRUNCATE} else "topics/"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_a_bucket_that_fails_at_random(start_tiered, seed):
    """Every kind of fault at every kind of request: the end is the same as without."""
    tiered = start_tiered()
    faults = [Fault.FAIL_BEFORE, Fault.CONFLICT, Fault.DROP_AFTER_COMMIT, Fault.FAIL_AFTER_COMMIT]
    faults += [Fault.DELAY, Fault.TRUNCATE, Fault.CORRUPT]
    dice = random.Random(seed)
    dice.shuffle(faults)
    rules = [
        FaultRule(fault, count=None, probability=dice.choice([0.03, 0.1]), seconds=0.002, key_pattern=where(fault))
        for fault in faults
    ]
    tiered.topic("t", 2)
    tiered.spoil(*rules)
    for _ in range(12):
        for partition in (0, 1):
            tiered.write("t", 5, partition=partition)
            manifest = tiered.manifest("t", partition)
            local_start = tiered.offsets("t", partition)[1]
            assert local_start <= manifest.remote_end, "evicted before it was archived"
    tiered.spoil()
    for partition in (0, 1):
        tiered.archived("t", partition)
        tiered.check_bucket("t", partition)
        tiered.check_reads("t", partition)


def test_no_range_is_evicted_before_it_was_read_back(tiered):
    """Committed is not enough: the local copy stays until the manifest and a HEAD of each object say it again."""
    tiered.topic("t")
    tiered.spoil(FaultRule(Fault.FAIL_BEFORE, "head", r"\.seg", count=None, skip=6))
    tiered.write("t", 60)
    tiered.node.wait_until(lambda: len(tiered.bucket.injected) > 6)
    assert tiered.offsets("t")[1] < tiered.offsets("t")[2] or tiered.offsets("t")[2] < 240
    heads = 6
    entries = tiered.manifest("t").entries
    assert tiered.offsets("t")[1] <= max([entry.end for entry in entries[:heads]], default=0)
    tiered.spoil()
    tiered.archived("t")
    tiered.check_reads("t")


def test_an_object_that_is_not_as_it_was_committed_keeps_the_local_copy(tiered):
    """A HEAD with another length stops eviction there; the data is still read, locally."""
    tiered.topic("t", local_retention_bytes=-1)
    tiered.spoil(FaultRule(Fault.FAIL_BEFORE, "head", r"\.seg", count=None, skip=3))
    tiered.write("t", 9)
    tiered.node.wait_until(lambda: tiered.bucket.injected)
    tiered.spoil()
    tiered.archived("t", evicted=False)
    entry = tiered.manifest("t").entries[0]
    archive = tiered.node.run(lambda: tiered.node.node.tiering._archives[tiered.node.partition("t")])
    tiered.node.wait_until(lambda: archive.evictable_offset == tiered.manifest("t").remote_end)
    tiered.node.stop()
    tiered.replace(entry.key, tiered.memory.get(entry.key)[0][:-1])
    tiered.node.start()
    tiered.configure("t", local_retention_bytes=0)
    tiered.write("t", 30)
    tiered.archived("t", evicted=False)
    assert tiered.offsets("t")[1] == 0
    tiered.check_reads("t")


def test_cold_readers_wait_alone(tiered):
    """While GETs hang, appends and hot reads of the same partition are answered; the reader gets its data later."""
    tiered.topic("t")
    tiered.write("t", 30)
    tiered.archived("t")
    tiered.roll("t")
    tiered.archived("t")
    hot = tiered.offsets("t")[1]
    gate = threading.Event()
    get_range = tiered.bucket.get_range
    tiered.bucket.get_range = lambda *args: gate.wait(20) and get_range(*args)
    answers = []
    reader = threading.Thread(target=lambda: answers.extend(tiered.read("t")))
    reader.start()
    for _ in range(10):
        tiered.write("t", 1, count=1, size_bytes=10)
    tiered.check_reads("t", 0, hot)
    assert not answers
    gate.set()
    reader.join(20)
    assert answers[:150] == tiered.written["t", 0][:150]


def test_a_stop_is_quick_while_the_bucket_is_down(tiered):
    """Shutting down does not wait for requests that cannot be answered."""
    tiered.topic("t")
    gate = threading.Event()
    tiered.bucket.put_if_absent = lambda *_, **__: gate.wait(60)
    tiered.write("t", 30)
    tiered.node.stop()
    gate.set()
