"""``stratalog topic describe``: partitions with their replicas, offsets and settings; or those that are short of replicas."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import click

from stratalog.cli.command import broker_options
from stratalog.cli.output import json_option, note, reports_errors, write_json, write_rows
from stratalog.client.admin import TopicConfig, describe_topic_configs
from stratalog.client.client import EARLIEST_OFFSET, LATEST_OFFSET, Client, ListedOffset, Partition, Topic
from stratalog.client.partition_states import Lack, describe_topics, lacking, min_in_sync_replicas
from stratalog.client.reach import away_sentences, reached_partitions
from stratalog.client.reassignments import Reassignment, list_reassignments
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition, uuid_text

__all__ = ["describe"]

EXAMPLES: Final = """
stratalog topic describe orders
stratalog topic describe orders --configs all --json
stratalog topic describe --under-replicated
stratalog topic describe --unavailable --at-min-isr
"""
REPLICA_COLUMNS: Final = {
    "partition": "PARTITION",
    "leader": "LEADER",
    "leader_epoch": "EPOCH",
    "replicas": "REPLICAS",
    "in_sync": "IN SYNC",
    "eligible": "ELIGIBLE",
    "offline": "OFFLINE",
}
OFFSET_COLUMNS: Final = {"log_start": "LOG START", "log_end": "LOG END"}
LACK_OPTIONS: Final = {
    Lack.UNDER_REPLICATED: "Only partitions with fewer in-sync replicas than they have; of all topics if none is named.",
    Lack.AT_MIN_ISR: "Only those with exactly min.insync.replicas in sync.",
    Lack.UNDER_MIN_ISR: "Only those with fewer than min.insync.replicas in sync: acks=all is refused.",
    Lack.UNAVAILABLE: "Only those without a leader.",
}


def _lack_options(function: Any) -> Any:
    for lack, text in reversed(LACK_OPTIONS.items()):
        function = click.option(f"--{lack}", lack.name.lower(), is_flag=True, help=text)(function)
    return function


@click.argument("names", metavar="[TOPIC]...", nargs=-1)
@_lack_options
@click.option(
    "--configs", "which", type=click.Choice(["changed", "all"]), default="changed", show_default=True,
    help="Settings that differ from their default, or all of them.",
)  # fmt: skip
@json_option
@broker_options
@reports_errors
def describe(
    *, names: tuple[str, ...], which: str, as_json: bool, bootstrap: str, timeout_seconds: float, **lacks: bool
) -> None:
    """Show partitions, leaders, replicas, offsets and settings of topics, or only partitions that are short of replicas.

    IN SYNC are the replicas that have all that is acknowledged. ELIGIBLE ones may lead although they are not in sync
    (KIP-966), OFFLINE ones are on a broker or a directory that is away. With several options such as
    --under-replicated a partition is shown that meets one.
    """
    wanted = {Lack[name.upper()] for name, is_given in lacks.items() if is_given}
    if not names and not wanted:
        raise click.UsageError("Name a topic, or give one of " + ", ".join(f"--{lack}" for lack in Lack) + ".")
    with Client(bootstrap, timeout_seconds) as client:
        if wanted:
            rows = _lacking_rows(client, names, wanted)
            write_rows(_shown(rows, as_json), {"topic": "TOPIC", **REPLICA_COLUMNS, "lacks": "WHY"}, as_json=as_json)
            return
        _describe(client, names, which, as_json=as_json)


def _describe(client: Client, names: Sequence[str], which: str, *, as_json: bool) -> None:
    topics = describe_topics(client, names)
    configs = describe_topic_configs(client, names)
    led = [
        TopicPartition(one.name, part.partition)
        for one in topics
        for part in one.partitions
        if part.leader in client.brokers
    ]
    reached, away = reached_partitions(client, led)
    starts = client.list_offsets(dict.fromkeys(reached, EARLIEST_OFFSET))
    ends = client.list_offsets(dict.fromkeys(reached, LATEST_OFFSET))
    for one in topics:
        shown = [config for config in configs[one.name] if which == "all" or config.is_changed]
        rows = [_row(part) | _offsets(one, part, starts, ends) for part in one.partitions]
        if as_json:
            write_json(_description(one, shown, rows))
        else:
            _write_description(one, shown, rows)
    for sentence in away_sentences(away):
        note(f"Without offsets: {sentence}")


def _lacking_rows(client: Client, names: Sequence[str], wanted: Collection[Lack]) -> list[dict[str, Any]]:
    topics = describe_topics(client, names or None)
    least: Mapping[str, int] = {}
    if {Lack.AT_MIN_ISR, Lack.UNDER_MIN_ISR}.intersection(wanted):
        least = min_in_sync_replicas(client, [one.name for one in topics])
    moves = _moves(client) if Lack.UNDER_REPLICATED in wanted else {}
    rows = []
    for one in sorted(topics, key=lambda each: each.name):
        for part in one.partitions:
            move = moves.get(TopicPartition(one.name, part.partition))
            found = lacking(part, move.adding if move else (), least.get(one.name, 0), client.brokers)
            lacks = [lack.value for lack in Lack if lack in found and lack in wanted]
            if lacks:
                rows.append({"topic": one.name} | _row(part) | {"lacks": lacks})
    return rows


def _moves(client: Client) -> Mapping[TopicPartition, Reassignment]:
    try:
        return list_reassignments(client)
    except KafkaError as error:
        if error.code is not ErrorCode.NOT_CONTROLLER:
            raise
        note(f"Replicas that a reassignment adds are shown, too: {error.message}.")
        return {}


def _row(part: Partition) -> dict[str, Any]:
    return {
        "partition": part.partition,
        "leader": part.leader if part.leader >= 0 else None,
        "leader_epoch": part.leader_epoch,
        "replicas": list(part.replicas),
        "in_sync": list(part.in_sync),
        "eligible": None if part.eligible is None else list(part.eligible),
        "offline": list(part.offline),
    }


def _offsets(
    one: Topic,
    part: Partition,
    starts: Mapping[TopicPartition, ListedOffset],
    ends: Mapping[TopicPartition, ListedOffset],
) -> dict[str, Any]:
    start, end = (found.get(TopicPartition(one.name, part.partition)) for found in (starts, ends))
    return {"log_start": start.offset if start else None, "log_end": end.offset if end else None}


def _shown(rows: Sequence[dict[str, Any]], as_json: bool) -> list[dict[str, Any]]:
    """For a table a list without an element is a dash."""
    if as_json:
        return list(rows)
    return [{name: None if value == [] else value for name, value in row.items()} for row in rows]


def _description(one: Topic, configs: Iterable[TopicConfig], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "topic": one.name,
        "topic_id": uuid_text(one.topic_id),
        "internal": one.internal,
        "partitions": rows,
        "configs": {config.name: config.value for config in configs},
        "config_sources": {config.name: config.source.name.lower() for config in configs},
    }


def _write_description(one: Topic, configs: Sequence[TopicConfig], rows: Sequence[dict[str, Any]]) -> None:
    click.echo(f"{one.name}  id {uuid_text(one.topic_id)}  {len(one.partitions)} partitions")
    for config in configs:
        click.echo(f"  {config.name}={config.value}  ({config.source.name.lower()})")
    write_rows(_shown(rows, as_json=False), REPLICA_COLUMNS | OFFSET_COLUMNS, as_json=False)
