"""Every cell of the table by name, in the order of the table."""

from __future__ import annotations

from bench.cell import Cell
from bench.cells import (
    archive_scale,
    cold_beside,
    cold_many,
    cold_read,
    cold_s3,
    command_waits,
    compaction,
    durability,
    embedded,
    failover,
    fetch_session,
    groups,
    librdkafka,
    loop_turns,
    many_partitions,
    memory,
    metadata,
    metadata_scale,
    offset_commits,
    offset_load,
    produce_fetch,
    quota,
    replicas_catch_up,
    replicas_failover,
    replicas_many,
    replicas_produce,
    restoring,
    spark_convert,
    spark_decode,
    spark_kernel,
    spark_memory,
    spark_plan,
    spark_scan,
    startup,
    transactions,
    uploads,
)
from bench.outcome import Outcome

__all__ = ["CELLS", "every_outcome", "selected"]

CELLS: dict[str, Cell] = {
    cell.name: cell
    for cell in (
        *produce_fetch.CELLS,
        librdkafka.CELL,
        fetch_session.CELL,
        quota.CELL,
        metadata.CELL,
        metadata_scale.CELL,
        many_partitions.CELL,
        loop_turns.CELL,
        command_waits.CELL,
        *groups.CELLS,
        offset_commits.CELL,
        offset_load.CELL,
        transactions.CELL,
        durability.CELL,
        startup.CELL,
        embedded.CELL,
        failover.CELL,
        replicas_produce.CELL,
        *replicas_failover.CELLS,
        *replicas_many.CELLS,
        *replicas_catch_up.CELLS,
        memory.CELL,
        cold_read.CELL,
        cold_s3.CELL,
        cold_many.CELL,
        cold_beside.CELL,
        restoring.CELL,
        spark_scan.CELL,
        spark_decode.CELL,
        spark_kernel.CELL,
        spark_plan.CELL,
        spark_convert.CELL,
        spark_memory.CELL,
        uploads.CELL,
        *archive_scale.CELLS,
        *compaction.CELLS,
    )
}


def selected(wanted: str) -> list[str]:
    """The names that begin with one of the words between commas; all of them for none.

    Raises ``ValueError`` for a word that no name begins with.
    """
    words = [word.strip() for word in wanted.split(",") if word.strip()]
    for word in words:
        if not any(name.startswith(word) for name in CELLS):
            raise ValueError(f"no cell is called {word!r}; there are {', '.join(CELLS)}")
    return [name for name in CELLS if not words or any(name.startswith(word) for word in words)]


def every_outcome() -> list[Outcome]:
    """Each line of the table, saying that nothing was measured."""
    return [line.not_measured("not measured") for cell in CELLS.values() for line in cell.lines]
