"""``stratalog topic``: create, list, describe, alter and delete topics."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from stratalog.cli.command import ExampleGroup, broker_options
from stratalog.cli.output import json_option, note, raise_first, reports_errors, write_json, write_rows
from stratalog.cli.topic_description import EXAMPLES, describe
from stratalog.cli.values import setting_value
from stratalog.client.admin import add_partitions, alter_topic_configs, create_topic, delete_topics_one_by_one
from stratalog.client.client import Client
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import uuid_text

__all__ = ["parse_assignments", "topic"]

topic = ExampleGroup(
    "topic",
    help="Create, list, describe, alter and delete topics.",
    no_args_is_help=True,
    examples="""
    stratalog topic create orders --partitions 6 --config retention.ms=-1 --config remote.storage.enable=true
    stratalog topic list
    stratalog topic describe orders --json
    stratalog topic alter orders --config local.retention.bytes=104857600 --delete-config retention.ms
    stratalog topic delete orders
    """,
)


def parse_assignments(_context: click.Context, parameter: click.Parameter, entries: Sequence[str]) -> dict[str, str]:
    """Options of the form ``NAME=VALUE`` as a mapping; the last of a name counts. Times and sizes may have units."""
    found: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not name.strip() or not equals:
            raise click.BadParameter(f"{entry!r} is not NAME=VALUE", param=parameter)
        found[name.strip()] = setting_value(name.strip(), value)
    return found


config_option = click.option(
    "-c", "--config", "configs", multiple=True, metavar="NAME=VALUE", callback=parse_assignments,
    help="A setting of the topic, under Kafka's name; times and sizes may have units: retention.ms=7d. May be repeated.",
)  # fmt: skip


@topic.command(
    "create",
    examples="""
    stratalog topic create orders
    stratalog topic create orders --partitions 6 --config retention.ms=-1 --config remote.storage.enable=true
    """,
)
@click.argument("name")
@click.option(
    "-p", "--partitions", type=click.IntRange(min=1), help="How many; the broker's num.partitions if not given."
)
@click.option(
    "-r", "--replication-factor", type=click.IntRange(min=1), help="Copies of each; the broker's default if not given."
)
@config_option
@click.option("--if-not-exists", is_flag=True, help="Succeed when the topic is there already.")
@click.option("--dry-run", is_flag=True, help="Let the broker check the request and create nothing.")
@json_option
@broker_options
@reports_errors
def create(
    *,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: dict[str, str],
    if_not_exists: bool,
    dry_run: bool,
    as_json: bool,
    bootstrap: str,
    timeout_seconds: float,
) -> None:
    """Create the topic NAME."""
    with Client(bootstrap, timeout_seconds) as client:
        try:
            made = create_topic(
                client, name,
                partition_count=partitions or -1, replication_factor=replication_factor or -1,
                configs=configs, validate_only=dry_run,
            )  # fmt: skip
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS or not if_not_exists:
                raise
            note(f"Topic {name} is there already.")
            return
    verb = "Would create" if dry_run else "Created"
    note(f"{verb} topic {name}" + (f" with {made.partition_count} partitions." if made.partition_count > 0 else "."))
    if as_json:
        write_json(
            {
                "topic": made.name,
                "topic_id": uuid_text(made.topic_id),
                "partitions": made.partition_count,
                "replication_factor": made.replication_factor,
                "created": not dry_run,
            }
        )


@topic.command("list", examples="stratalog topic list\nstratalog topic list --all --json")
@click.option("--all", "show_internal", is_flag=True, help="Internal topics too.")
@json_option
@broker_options
@reports_errors
def list_topics(*, show_internal: bool, as_json: bool, bootstrap: str, timeout_seconds: float) -> None:
    """List topics."""
    with Client(bootstrap, timeout_seconds) as client:
        found = sorted(client.refresh(), key=lambda one: one.name)
    rows = [
        {
            "topic": one.name,
            "topic_id": uuid_text(one.topic_id),
            "partitions": len(one.partitions),
            "replication_factor": len(one.partitions[0].replicas) if one.partitions else 0,
            "internal": one.internal,
        }
        for one in found
        if show_internal or not one.internal
    ]
    columns = {"topic": "TOPIC", "partitions": "PARTITIONS", "replication_factor": "REPLICAS", "topic_id": "ID"}
    write_rows(rows, columns, as_json=as_json)


topic.command("describe", examples=EXAMPLES)(describe)


@topic.command(
    "alter",
    examples="""
    stratalog topic alter orders --config retention.ms=86400000
    stratalog topic alter orders --delete-config retention.ms --dry-run
    stratalog topic alter orders --partitions 12
    """,
)
@click.argument("name")
@click.option(
    "-p", "--partitions", type=click.IntRange(min=1), help="How many it has in the end; there can only be more."
)
@config_option
@click.option(
    "-d", "--delete-config", "deleted", multiple=True, metavar="NAME", help="Give a setting back to its default."
)
@click.option("--dry-run", is_flag=True, help="Let the broker check the request and change nothing.")
@broker_options
@reports_errors
def alter(
    *,
    name: str,
    partitions: int | None,
    configs: dict[str, str],
    deleted: tuple[str, ...],
    dry_run: bool,
    bootstrap: str,
    timeout_seconds: float,
) -> None:
    """Change settings of the topic NAME, and add partitions to it; settings not named stay.

    Records of a key may go to another partition than before once there are more of them.
    """
    if not configs and not deleted and partitions is None:
        raise click.UsageError("Nothing to change: give --config NAME=VALUE, --delete-config NAME or --partitions N.")
    with Client(bootstrap, timeout_seconds) as client:
        client.refresh([name])
        if configs or deleted:
            alter_topic_configs(client, name, set_to=configs, delete=deleted, validate_only=dry_run)
        if partitions is not None:
            add_partitions(client, name, partitions, validate_only=dry_run)
    note(f"{'Would change' if dry_run else 'Changed'} topic {name}.")


@topic.command("delete", examples="stratalog topic delete orders\nstratalog topic delete orders returns --yes")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option("-y", "--yes", is_flag=True, help="Do not ask; never asked when standard input is no terminal.")
@broker_options
@reports_errors
def delete(*, names: tuple[str, ...], yes: bool, bootstrap: str, timeout_seconds: float) -> None:
    """Delete topics with all their records."""
    if not yes and sys.stdin.isatty():
        click.confirm(f"Delete {', '.join(names)} with all records?", abort=True, err=True)
    with Client(bootstrap, timeout_seconds) as client:
        wanted = list(dict.fromkeys(names))
        refused = delete_topics_one_by_one(client, wanted)
    if gone := [name for name in wanted if name not in refused]:
        note(f"Deleted {', '.join(gone)}.")
    raise_first(refused.values())
