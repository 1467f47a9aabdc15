"""``stratalog group``: list, describe and delete consumer groups, and set their offsets."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

import click

from stratalog.cli.command import ExampleGroup, broker_options
from stratalog.cli.output import (
    ExitCode,
    NotFoundError,
    json_option,
    note,
    raise_first,
    reports_errors,
    write_json,
    write_rows,
)
from stratalog.cli.values import parse_time_ms
from stratalog.client.client import BrokerAway, Client, ListedOffset
from stratalog.client.coordinators import coordinators_away
from stratalog.client.group_reset import Reset, ResetTo, Target, plan_reset
from stratalog.client.groups import (
    Committed,
    GroupDescription,
    committed_offsets,
    delete_group,
    describe_group,
    list_groups,
    set_offsets,
)
from stratalog.client.reach import Away, away_sentences, or_away, reached_partitions
from stratalog.metadata.image.topic_names import CONSUMER_OFFSETS_TOPIC
from stratalog.wire.errors import ErrorCode, Invalid, KafkaError
from stratalog.wire.topic import TopicPartition

__all__ = ["group"]

_LATEST: Final = -1
_WITHOUT_MEMBERS: Final = ("Empty", "Dead")

group = ExampleGroup(
    "group",
    help="List, describe and delete consumer groups, and set their offsets.",
    no_args_is_help=True,
    examples="""
    stratalog group list
    stratalog group describe billing
    stratalog group reset-offsets billing --topic orders --to-datetime 2013-07-04T12:00:00Z
    stratalog group reset-offsets billing --topic orders --to-datetime 2013-07-04T12:00:00Z --execute
    stratalog group delete billing
    """,
)


@group.command("list", examples="stratalog group list\nstratalog group list --state empty --json")
@click.option(
    "--state", "states", multiple=True, help="Only groups in this state, as Stable or Empty; may be repeated."
)
@click.option("--type", "types", type=click.Choice(["classic", "consumer"]), multiple=True,
              help="Only groups whose members speak this protocol; may be repeated.")  # fmt: skip
@json_option
@broker_options
@reports_errors
def list_all(
    *, states: tuple[str, ...], types: tuple[str, ...], as_json: bool, bootstrap: str, timeout_seconds: float
) -> None:
    """List groups."""
    with Client(bootstrap, timeout_seconds) as client:
        found = list_groups(client, states, types)
        away = coordinators_away(client, CONSUMER_OFFSETS_TOPIC)
    rows = [
        {"group": one.group_id, "type": one.type, "state": one.state, "protocol_type": one.protocol_type}
        for one in found
    ]
    write_rows(rows, {"group": "GROUP", "type": "TYPE", "state": "STATE"}, as_json=as_json)
    if away:
        note(f"{away} partitions of {CONSUMER_OFFSETS_TOPIC} have no leader: the groups in them are not listed.")


@group.command("describe", examples="stratalog group describe billing\nstratalog group describe billing audit --json")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@json_option
@broker_options
@reports_errors
def describe(*, names: tuple[str, ...], as_json: bool, bootstrap: str, timeout_seconds: float) -> None:
    """Show state, members, committed offsets and lag of groups.

    A group whose coordinator does not answer is left out and named, and so is the log end of a partition whose leader does
    not; the exit code is 4 then.
    """
    failure: KafkaError | None = None
    described: list[tuple[GroupDescription, dict[TopicPartition, Committed], list[TopicPartition]]] = []
    with Client(bootstrap, timeout_seconds) as client:
        for name in names:
            try:
                found = or_away(f"group {name}", partial(describe_group, client, name))
                committed = or_away(f"group {name}", partial(committed_offsets, client, name))
            except Away as error:
                note(f"Not described: {error}.")
                continue
            except KafkaError as error:
                failure = error
                break
            read = {one for member in found.members for one in member.partitions}
            described.append((found, committed, sorted(read.union(committed))))
        wanted = sorted({one for _, _, partitions in described for one in partitions})
        reached, away = reached_partitions(client, _existing(client, wanted))
        ends = client.list_offsets(dict.fromkeys(reached, _LATEST))
    for found, committed, partitions in described:
        rows = _partition_rows(found, partitions, committed, ends)
        if as_json:
            write_json(_description(found, rows))
        else:
            _write_description(found, rows)
    for sentence in away_sentences(away):
        note(f"Without log end: {sentence}")
    if failure is not None:
        raise failure
    if away or len(described) < len(names):
        raise SystemExit(int(ExitCode.UNHEALTHY))


def _existing(client: Client, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Those that have not been deleted."""
    existing: list[TopicPartition] = []
    for name in dict.fromkeys(one.topic for one in partitions):
        for topic in client.refresh([name], skip_missing=True):
            existing += [one for one in partitions if one.topic == name and topic.partition(one.partition) is not None]
    return existing


def _partition_rows(
    found: GroupDescription,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, Committed],
    ends: Mapping[TopicPartition, ListedOffset],
) -> list[dict[str, Any]]:
    readers = {one: member for member in found.members for one in member.partitions}
    rows = []
    for one in partitions:
        offset, end, reader = committed.get(one), ends.get(one), readers.get(one)
        rows.append(
            {
                "topic": one.topic,
                "partition": one.partition,
                "offset": offset.offset if offset else None,
                "log_end": end.offset if end else None,
                "lag": max(end.offset - offset.offset, 0) if end and offset else None,
                "leader_epoch": offset.leader_epoch if offset and offset.leader_epoch >= 0 else None,
                "metadata": offset.metadata if offset else None,
                "member": reader.member_id if reader else None,
                "host": reader.host if reader else None,
                "client_id": reader.client_id if reader else None,
            }
        )
    return rows


def _description(found: GroupDescription, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "group": found.group_id,
        "type": found.type,
        "state": found.state,
        "protocol_type": found.protocol_type,
        "assignor": found.assignor,
        "coordinator": found.coordinator,
        "lag": sum(row["lag"] or 0 for row in rows),
        "members": [
            {
                "member": one.member_id,
                "instance": one.instance_id,
                "client_id": one.client_id,
                "host": one.host,
                "epoch": one.epoch,
                "partitions": [{"topic": part.topic, "partition": part.partition} for part in one.partitions],
            }
            for one in found.members
        ],
        "partitions": list(rows),
    }


def _write_description(found: GroupDescription, rows: Sequence[Mapping[str, Any]]) -> None:
    told = [found.group_id, found.type, found.state, f"{len(found.members)} members"]
    if found.assignor:
        told.append(f"assignor {found.assignor}")
    click.echo("  ".join([*told, f"coordinator {found.coordinator}"]))
    columns = {"topic": "TOPIC", "partition": "PARTITION", "offset": "OFFSET", "log_end": "LOG END", "lag": "LAG"}
    if found.members:
        columns |= {"member": "MEMBER", "host": "HOST", "client_id": "CLIENT"}
    if rows:
        write_rows(rows, columns, as_json=False)
    idle = [one for one in found.members if not one.partitions]
    if idle:
        members = [{"member": one.member_id, "host": one.host, "client_id": one.client_id} for one in idle]
        write_rows(members, {"member": "WITHOUT PARTITIONS", "host": "HOST", "client_id": "CLIENT"}, as_json=False)


@group.command(
    "reset-offsets",
    examples="""
    stratalog group reset-offsets billing --topic orders --to-earliest
    stratalog group reset-offsets billing --topic orders:0,3 --shift-by -100 --execute
    stratalog group reset-offsets billing --all-topics --to-datetime 2013-07-04T12:00:00Z --json
    """,
)
@click.argument("name", metavar="GROUP")
@click.option(
    "-t", "--topic", "topics", multiple=True, metavar="TOPIC[:PARTITION,...]",
    help="A topic, or some of its partitions; may be repeated.",
)  # fmt: skip
@click.option("--all-topics", is_flag=True, help="Everything the group has committed offsets of.")
@click.option("--to-earliest", is_flag=True, help="To the first offset that there is, in the bucket too.")
@click.option("--to-latest", is_flag=True, help="Behind the last record.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="To this offset.")
@click.option(
    "--to-datetime", metavar="TIME", help="To the first record of this time or later: ms since 1970 or ISO 8601."
)
@click.option("--shift-by", type=int, metavar="N", help="By so many records, back if negative.")
@click.option("--execute", is_flag=True, help="Set them. Without it nothing is changed.")
@json_option
@broker_options
@reports_errors
def reset_offsets(
    *,
    name: str,
    topics: tuple[str, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: str | None,
    shift_by: int | None,
    execute: bool,
    as_json: bool,
    bootstrap: str,
    timeout_seconds: float,
) -> None:
    """Show where the offsets of GROUP would be set to, or set them. The group must have no members then.

    Partitions whose broker does not answer keep their offsets and are named; the exit code is 4 then.
    """
    if bool(topics) == all_topics:
        raise click.UsageError("Give --topic, or --all-topics.")
    target = _target(earliest=to_earliest, latest=to_latest, offset=to_offset, datetime=to_datetime, shift_by=shift_by)
    with Client(bootstrap, timeout_seconds) as client:
        _check_no_members(client, name)
        committed = committed_offsets(client, name)
        partitions = list(committed) if all_topics else _partitions(client, topics)
        reached, away = reached_partitions(client, partitions)
        plan = plan_reset(client, reached, committed, target)
        refused: dict[TopicPartition, KafkaError] = {}
        if execute and plan:
            refused = set_offsets(client, name, {one.topic_partition: one.after for one in plan})
    _write_plan(name, plan, refused, executed=execute, as_json=as_json)
    if not partitions:
        note(f"Group {name} has committed nothing.")
    for sentence in away_sentences(away):
        note(f"Not set: {sentence}")
    for error in refused.values():
        raise error
    if away:
        raise SystemExit(int(ExitCode.UNHEALTHY))


def _target(*, earliest: bool, latest: bool, offset: int | None, datetime: str | None, shift_by: int | None) -> Target:
    """The one target that was given. Raises `UsageError`."""
    targets = []
    if earliest:
        targets.append(Target(ResetTo.EARLIEST))
    if latest:
        targets.append(Target(ResetTo.LATEST))
    if offset is not None:
        targets.append(Target(ResetTo.OFFSET, offset))
    if datetime is not None:
        targets.append(Target(ResetTo.TIME, max(parse_time_ms(datetime), 0)))  # below 0 are no times, but ends of logs
    if shift_by is not None:
        targets.append(Target(ResetTo.SHIFT, shift_by))
    if len(targets) != 1:
        raise click.UsageError("Give one of --to-earliest, --to-latest, --to-offset, --to-datetime and --shift-by.")
    return targets[0]


def _check_no_members(client: Client, name: str) -> None:
    """A group that is not there may be given offsets; one with members may not. Raises `Invalid`."""
    try:
        state = describe_group(client, name).state
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return
    if state not in _WITHOUT_MEMBERS:
        raise Invalid(f"group {name} is {state}: its offsets can be set when it has no members")


def _partitions(client: Client, texts: Sequence[str]) -> list[TopicPartition]:
    """The partitions that ``TOPIC`` and ``TOPIC:0,3`` name. Raises `Invalid`, `NotFoundError`, `KafkaError`."""
    found: list[TopicPartition] = []
    for text in texts:
        topic, colon, numbers = text.partition(":")
        existing = {part.partition for part in client.refresh([topic])[0].partitions}
        try:
            wanted = {int(number) for number in numbers.split(",")} if colon else existing
        except ValueError as error:
            raise Invalid(f"{text!r} is not TOPIC or TOPIC:PARTITION,PARTITION") from error
        if not wanted <= existing:
            raise NotFoundError(f"topic {topic} has no partition {min(wanted - existing)}")
        found += [TopicPartition(topic, number) for number in wanted]
    return list(dict.fromkeys(found))


def _write_plan(
    name: str, plan: Sequence[Reset], refused: Collection[TopicPartition], *, executed: bool, as_json: bool
) -> None:
    rows = [
        {
            "group": name,
            "topic": one.topic_partition.topic,
            "partition": one.topic_partition.partition,
            "offset": one.before,
            "new_offset": one.after,
            "executed": executed and one.topic_partition not in refused,
        }
        for one in plan
    ]
    columns = {"topic": "TOPIC", "partition": "PARTITION", "offset": "OFFSET", "new_offset": "NEW OFFSET"}
    write_rows(rows, columns, as_json=as_json)
    for one in plan:
        if one.limited:
            note(f"{one.topic_partition}: there is nothing beyond {one.after}.")
    if plan and executed:
        note(
            f"Set {len(plan) - len(refused)} offsets of group {name}."
            + (f" {len(refused)} were refused." if refused else "")
        )
    elif plan:
        note("Nothing was changed: add --execute to set them.")


@group.command("delete", examples="stratalog group delete billing\nstratalog group delete billing audit --yes")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@click.option("-y", "--yes", is_flag=True, help="Do not ask; never asked when standard input is no terminal.")
@broker_options
@reports_errors
def delete(*, names: tuple[str, ...], yes: bool, bootstrap: str, timeout_seconds: float) -> None:
    """Delete groups without members, with their offsets."""
    if not yes and sys.stdin.isatty():
        click.confirm(f"Delete {', '.join(names)} with all offsets?", abort=True, err=True)
    with Client(bootstrap, timeout_seconds) as client:
        refused: dict[str, KafkaError | BrokerAway] = {}
        for name in dict.fromkeys(names):
            try:
                delete_group(client, name)
            except (KafkaError, BrokerAway) as error:
                refused[name] = error
    if gone := [name for name in dict.fromkeys(names) if name not in refused]:
        note(f"Deleted {', '.join(gone)}.")
    raise_first(refused.values())
