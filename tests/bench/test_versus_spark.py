"""The comparison with Spark's Kafka source: its records, its ratios, the CPU time of workers that are gone."""

import os
import subprocess
import sys

import pytest

from bench.outcome import Bound
from bench.processes import cpu_seconds_of_tree, cpu_seconds_of_tree_and_ended
from bench.versus_spark.cells import CELLS, _Compared
from bench.versus_spark.records import SETS


@pytest.mark.parametrize("name", SETS)
def test_records_are_as_large_as_their_set_says(name):
    """Equal lengths, or varied from a half to one and a half with the same mean."""
    lengths = [len(value) for value in SETS[name].values()]
    wanted = SETS[name].value_bytes
    if SETS[name].varied:
        assert min(lengths) >= wanted // 2
        assert max(lengths) < wanted + wanted // 2
        assert len(set(lengths)) > 50
        assert sum(lengths) / len(lengths) == pytest.approx(wanted, rel=0.02)
    else:
        assert set(lengths) == {wanted}


def test_every_set_is_scanned_and_converted():
    """Cells are selected by their names."""
    assert {f"{action}-{name}" for action in ("scan", "parquet") for name in SETS} < set(CELLS)


def test_a_ratio_is_that_of_one_repetition_and_counts_every_process():
    """The median of pairs, not a ratio of medians; the servers' time belongs to the bill."""
    runs = {
        "stratalog": [{"wall": 1.0, "spark_cpu": 1.0, "server_cpu": 1.0}, {"wall": 2.0, "spark_cpu": 4.0, "server_cpu": 0.0}],
        "kafka": [{"wall": 3.0, "spark_cpu": 2.0, "server_cpu": 4.0}, {"wall": 2.0, "spark_cpu": 3.0, "server_cpu": 1.0}],
    }  # fmt: skip
    wall = _Compared("wall", "wall", "stratalog", "kafka", Bound(">=", 2.0)).judge(runs)
    assert (wall.measured, wall.held, wall.details["pairs"]) == (2.0, True, "3 1")
    assert _Compared("cpu", "cpu", "stratalog", "kafka", Bound(">=", 2.5)).judge(runs).measured == 2.0
    inverse = _Compared("wall", "wall", "stratalog", "kafka", Bound("<=", 1.0), inverse=True).judge(runs)
    assert inverse.measured == pytest.approx(2 / 3)


def test_a_worker_that_ended_still_counts():
    """Its time is its parent's as soon as that has waited for it."""
    before, living = cpu_seconds_of_tree_and_ended(os.getpid()), cpu_seconds_of_tree(os.getpid())
    burn = "import time\nwhile time.process_time() < 0.4: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    spent = cpu_seconds_of_tree_and_ended(os.getpid()) - before
    assert spent >= 0.35  # the kernel counts hundredths, of both processes
    assert cpu_seconds_of_tree(os.getpid()) - living < spent
