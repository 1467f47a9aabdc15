"""``stratalog transaction``: list and describe transactions, list the producers of a partition, end hanging ones."""

from __future__ import annotations

from typing import Any, Final

import click

from stratalog.cli.command import ExampleGroup, broker_options
from stratalog.cli.output import json_option, note, reports_errors, write_json, write_rows
from stratalog.client.client import Client
from stratalog.client.coordinators import coordinators_away
from stratalog.client.transactions import (
    ActiveProducer,
    abort_transaction,
    describe_producers,
    describe_transaction,
    list_transactions,
)
from stratalog.metadata.image.topic_names import TRANSACTION_STATE_TOPIC
from stratalog.metadata.transactions.status import TransactionStatus
from stratalog.wire.topic import TopicPartition

__all__ = ["transaction"]

_STATES: Final = [status.title for status in TransactionStatus]
_OPEN: Final = tuple(
    status.title for status in TransactionStatus if status.ending or status is TransactionStatus.ONGOING
)
_MS: Final = 1000

transaction = ExampleGroup(
    "transaction",
    help="List and describe transactions, and end those that hang.",
    no_args_is_help=True,
    examples="""
    stratalog transaction list --state Ongoing --longer-than 60
    stratalog transaction describe orders-copy --json
    stratalog transaction producers orders --partition 0
    stratalog transaction abort orders --partition 0 --start-offset 1234
    """,
)


@transaction.command(
    "list",
    examples="stratalog transaction list\nstratalog transaction list --state Ongoing --longer-than 60 --json",
)
@click.option(
    "--state", "states", type=click.Choice(_STATES, case_sensitive=False), multiple=True,
    help="Only those in this state; may be repeated.",
)  # fmt: skip
@click.option("--producer-id", "producer_ids", type=int, multiple=True, help="Only this producer's; may be repeated.")
@click.option("--longer-than", "seconds", type=click.FloatRange(min=0), help="Only those open for so many seconds.")
@click.option("--pattern", help="Only ids that this regular expression (RE2) matches as a whole.")
@json_option
@broker_options
@reports_errors
def list_all(
    *,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    seconds: float | None,
    pattern: str | None,
    as_json: bool,
    bootstrap: str,
    timeout_seconds: float,
) -> None:
    """List transactional ids."""
    with Client(bootstrap, timeout_seconds) as client:
        found = list_transactions(
            client,
            # Brokers let pass by duration whatever began long ago, also if it has ended, or never began.
            states=states or (() if seconds is None else _OPEN),
            producer_ids=producer_ids,
            duration_ms=-1 if seconds is None else int(seconds * _MS),
            pattern=pattern,
        )
        away = coordinators_away(client, TRANSACTION_STATE_TOPIC)
    rows = [
        {
            "transactional_id": one.transactional_id,
            "state": one.state,
            "producer_id": one.producer_id,
            "coordinator": one.coordinator,
        }
        for one in found
    ]
    columns = {
        "transactional_id": "TRANSACTIONAL ID",
        "state": "STATE",
        "producer_id": "PRODUCER ID",
        "coordinator": "COORDINATOR",
    }
    write_rows(rows, columns, as_json=as_json)
    if away:
        note(f"{away} partitions of {TRANSACTION_STATE_TOPIC} have no leader: the transactions in them are not listed.")


@transaction.command("describe", examples="stratalog transaction describe orders-copy")
@click.argument("transactional_ids", metavar="ID...", nargs=-1, required=True)
@json_option
@broker_options
@reports_errors
def describe(*, transactional_ids: tuple[str, ...], as_json: bool, bootstrap: str, timeout_seconds: float) -> None:
    """Show state, producer, time-out and partitions of transactional ids."""
    rows = []
    with Client(bootstrap, timeout_seconds) as client:
        for name in transactional_ids:
            found = describe_transaction(client, name)
            partitions = [str(one) for one in found.partitions]
            rows.append(
                {
                    "transactional_id": name,
                    "state": found.state,
                    "producer_id": found.producer_id,
                    "producer_epoch": found.producer_epoch,
                    "coordinator": found.coordinator,
                    "timeout_ms": found.timeout_ms,
                    "start_ms": found.start_ms,
                    "partitions": partitions if as_json else ", ".join(partitions),
                }
            )
    columns = {
        "transactional_id": "TRANSACTIONAL ID",
        "state": "STATE",
        "producer_id": "PRODUCER ID",
        "producer_epoch": "EPOCH",
        "coordinator": "COORDINATOR",
        "timeout_ms": "TIMEOUT MS",
        "start_ms": "BEGAN AT MS",
        "partitions": "PARTITIONS",
    }
    write_rows(rows, columns, as_json=as_json)


partition_option = click.option(
    "-p", "--partition", type=click.IntRange(min=0), required=True, help="The number of the partition."
)


@transaction.command("producers", examples="stratalog transaction producers orders --partition 0")
@click.argument("topic")
@partition_option
@json_option
@broker_options
@reports_errors
def producers(*, topic: str, partition: int, as_json: bool, bootstrap: str, timeout_seconds: float) -> None:
    """Show the producers of a partition of TOPIC, and where open transactions began."""
    with Client(bootstrap, timeout_seconds) as client:
        found = describe_producers(client, TopicPartition(topic, partition))
    columns = {
        "producer_id": "PRODUCER ID",
        "producer_epoch": "EPOCH",
        "last_sequence": "LAST SEQUENCE",
        "last_timestamp_ms": "LAST TIME MS",
        "coordinator_epoch": "COORDINATOR EPOCH",
        "start_offset": "OPEN SINCE OFFSET",
    }
    write_rows([_row(one) for one in found], columns, as_json=as_json)


def _row(one: ActiveProducer) -> dict[str, Any]:
    return one._asdict()


@transaction.command("abort", examples="stratalog transaction abort orders --partition 0 --start-offset 1234")
@click.argument("topic")
@partition_option
@click.option(
    "--start-offset", type=click.IntRange(min=0), required=True,
    help="Where the transaction began, as `producers` shows it.",
)  # fmt: skip
@json_option
@broker_options
@reports_errors
def abort(
    *, topic: str, partition: int, start_offset: int, as_json: bool, bootstrap: str, timeout_seconds: float
) -> None:
    """Abort a transaction of TOPIC that has lost its owner, in this one partition."""
    name = TopicPartition(topic, partition)
    with Client(bootstrap, timeout_seconds) as client:
        producer = abort_transaction(client, name, start_offset)
    note(f"Aborted the transaction of producer {producer.producer_id} in {name} that began at offset {start_offset}.")
    if as_json:
        write_json({"topic": topic, "partition": partition, **_row(producer)})
