"""Runs are kept as lines, and become a table."""

from bench.faults.campaign import Cell, Run
from bench.faults.table import append_run, read_runs, table


def test_runs_are_read_back_and_summed_by_fault(tmp_path):
    """Acknowledged and violations are summed, the longest gap is the longest of all."""
    path = tmp_path / "build" / "runs"
    for seed, gap in ((1, 2.0), (2, 3.5)):
        cells = {"plain": Cell(1000, gap, ["lost"]), "groups": Cell(5, 1.0)}
        append_run(path, Run("kill+cut", seed, 60.0, {"kill": 3, "cut": 2, "bytes dropped": 9}, cells, ["differ"]))
    runs = read_runs(path)
    assert runs[0].all_violations == ["differ", "plain: lost"]
    assert table(runs).splitlines()[2] == "| kill+cut | 2 | 10 | 2,000, 3.5 s, 2 | 10, 1.0 s, 0 | 2 |"
