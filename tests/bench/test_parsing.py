"""Figures from the kernel and from the broker's metrics, and arithmetic on them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.archives import frozen_not_uploaded, json_values
from bench.cells.primitives import SIZES, Primitives, predict
from bench.cells.spark_memory import parse_peak_kib
from bench.cells.uploads import _judge, _Run
from bench.load import LoadResult
from bench.outcome import Bound
from bench.processes import cpu_seconds, parse_cpu_ticks, parse_pss_kib
from bench.servers import parse_metric
from bench.settings import file_system


def test_a_process_name_with_spaces_and_brackets_does_not_shift_the_fields():
    """The name in /proc/PID/stat may hold anything; the fields are counted from its last bracket."""
    stat = "77 (a ) b) S 5 77 77 0 -1 4194560 1 2 3 4 120 30 0 0 20 0 1 0 100"
    assert parse_cpu_ticks(stat) == (5, 150)


def test_the_proportional_set_size_is_not_that_of_one_kind_of_page():
    """Pss, not Pss_Anon or Rss; a text without it is an error."""
    assert parse_pss_kib("Rss:  900 kB\nPss:  700 kB\nPss_Anon:  600 kB\n") == 700
    with pytest.raises(ValueError, match="Pss"):
        parse_pss_kib("Rss: 900 kB\n")


def test_a_metric_is_summed_over_its_labels_and_not_over_longer_names():
    """Exactly this name, with labels or without."""
    text = '# HELP gets x\ngets{operation="a"} 2.0\ngets{operation="b c"} 3.0\ngets_total 9.0\n'
    assert parse_metric(text, "gets") == 5
    assert parse_metric(text, "gets_total") == 9
    assert parse_metric(text, "missing") == 0


def test_the_file_system_is_that_of_the_deepest_mount():
    """A tmpfs below a disk is not a disk."""
    mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\ntmpfs /tmpfoo xfs rw 0 0\n"
    assert file_system(Path("/tmp/x"), mounts) == "tmpfs"
    assert file_system(Path("/var/tmp"), mounts) == "ext4"
    assert file_system(Path("/tmpfoo/y"), mounts) == "xfs"


def test_the_active_segment_and_what_is_uploaded_are_no_backlog(tmp_path):
    """With four segments, the last is active and the first is in the archive."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    for base in (0, 100, 200, 300):
        (folder / f"{base:020}.log").touch()
    assert frozen_not_uploaded(tmp_path, "t", [100]) == [2]
    assert frozen_not_uploaded(tmp_path, "t", [300]) == [0]


def test_values_have_the_size_asked_for_and_differ():
    """JSON of exactly so many bytes."""
    values = json_values(50, 120)
    assert {len(value) for value in values} == {120}
    assert len(set(values)) == 50


def result(p50_us, p99_us, megabytes_per_second=50.0):
    """A run of one second."""
    return LoadResult(1.0, 1000, int(megabytes_per_second * 1e6), p50_us, p99_us, 0, 0, 1, 1, 1000, 0.5)


def test_rates_and_cpu_time_are_those_of_the_measured_time():
    """Requests and bytes a second, microseconds a request."""
    one = result(1, 2)
    assert (one.requests_per_second, one.megabytes_per_second, one.cpu_us_per_request) == (1000, 50, 500)


def test_latency_with_uploads_is_compared_by_medians_over_runs():
    """p50 as a ratio, p99 as what is above 1.6 times, the backlog as the worst of all runs."""
    plain = [_Run(result(1000, p99), 0, 0) for p99 in (4000, 5000, 90000)]
    uploads = [_Run(result(1200, p99), backlog, 1e6) for p99, backlog in ((9000, 0), (9500, 2), (99000, 1))]
    p50, p99, backlog = _judge(plain, uploads)
    assert p50.measured == pytest.approx(1.2)
    assert p99.measured == pytest.approx(1.5)
    assert backlog.measured == 2
    assert p50.held
    assert p99.held
    assert backlog.held
    assert p99.bound == Bound("<=", 2.0)


def test_a_rate_that_was_not_kept_is_no_measurement():
    """Latency at another load says nothing."""
    runs = [_Run(result(1000, 2000), 0, 1e6)]
    slow = [_Run(result(1000, 2000, megabytes_per_second=40.0), 0, 1e6)]
    assert [line.measured for line in _judge(runs, slow)] == [None, None, None]


def test_predictions_follow_from_the_primitives():
    """Python that costs nothing predicts C's figure; dearer calls predict less, cells by CPU most of all."""
    flat = dict.fromkeys(SIZES, 1.0)
    rest = {"sync": 100.0, "import_seconds": 0.3, "import_megabytes": 40.0}
    free = predict(Primitives(4.0, flat, flat, 1.0, flat, 90.0, call=0.0, **rest))
    dear = predict(Primitives(4.0, flat, flat, 1.0, flat, 90.0, call=0.3, **rest))
    assert free["produce-200B"] == 1
    assert free["fetch-1MiB"] == 1
    assert dear["produce-200B-pipelined"] < dear["produce-200B"] < dear["fetch-1MiB"] < 1
    assert dear["start-empty"] == 0.3


def test_the_peak_of_a_process_is_its_high_water_mark():
    """VmHWM counts, not VmRSS, the memory it holds now; a process that has ended gives 0."""
    assert parse_peak_kib("Name:\tpython\nVmHWM:\t  1200 kB\nVmRSS:\t   900 kB\n") == 1200
    assert parse_peak_kib("Name:\tpython\nState:\tZ (zombie)\n") == 0


def test_cpu_time_is_finer_than_a_tick():
    """Each look finds more, however little was done in between; a process that is gone has none."""
    looks = [cpu_seconds(os.getpid()) for _ in range(5)]
    assert looks == sorted(set(looks))
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    with pytest.raises(OSError, match="Invalid argument"):
        cpu_seconds(process.pid)
