"""``stratalog quota``: see, set and remove the quotas of users, client ids and addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import click

from stratalog.cli.command import ExampleGroup, broker_options
from stratalog.cli.output import NotFoundError, json_option, note, reports_errors, write_rows
from stratalog.client.client import Client
from stratalog.client.quotas import Entity, alter_quotas, describe_quotas

__all__ = ["quota"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_TYPES: Final = ("user", "client-id", "ip")
_DEFAULT: Final = "<default>"

quota = ExampleGroup(
    "quota",
    help="See, set and remove quotas of users, client ids and addresses.",
    no_args_is_help=True,
    examples="""
    stratalog quota set --client-id etl producer_byte_rate=1048576 consumer_byte_rate=2097152
    stratalog quota set --user alice --default-client-id request_percentage=25
    stratalog quota list --json
    stratalog quota remove --client-id etl producer_byte_rate
    """,
)


def entity_options(function: Decorated) -> Decorated:
    """Add the options that name an entity: a name or the default of each type."""
    for kind, metavar, what in (
        ("ip", "ADDRESS", "New connections from this address."),
        ("client-id", "ID", "Clients that call themselves so."),
        ("user", "NAME", "Clients of this user."),
    ):
        function = click.option(
            f"--default-{kind}", f"default_{kind.replace('-', '_')}", is_flag=True,
            help=f"Everyone without a quota of his own {kind}.",
        )(function)  # fmt: skip
        function = click.option(f"--{kind}", metavar=metavar, help=what)(function)
    return function


def _entity(options: Mapping[str, Any]) -> Entity:
    """The entity that the options name. Raises ``UsageError`` for a name and the default of one type."""
    entity: dict[str, str | None] = {}
    for kind in _TYPES:
        field = kind.replace("-", "_")
        name, default = options[field], options[f"default_{field}"]
        if name is not None and default:
            raise click.UsageError(f"--{kind} and --default-{kind} exclude each other")
        if name is not None or default:
            entity[kind] = name
    return entity


def _named(options: Mapping[str, Any]) -> Entity:
    entity = _entity(options)
    if not entity:
        raise click.UsageError("name a --user, a --client-id, both, or an --ip (or one of the defaults)")
    return entity


def _words(entity: Entity) -> str:
    return ", ".join(f"{kind} {_DEFAULT if name is None else name}" for kind, name in entity.items())


def parse_values(_context: click.Context, parameter: click.Parameter, entries: Sequence[str]) -> dict[str, float]:
    """Arguments of the form ``KEY=NUMBER`` as a mapping."""
    found: dict[str, float] = {}
    for entry in entries:
        key, _, text = entry.partition("=")
        try:
            found[key] = float(text)
        except ValueError as error:
            raise click.BadParameter(f"{entry!r} is not KEY=NUMBER", param=parameter) from error
    return found


def _number(value: float) -> float | int:
    return int(value) if value.is_integer() else value


@quota.command("list", examples="stratalog quota list\nstratalog quota list --user alice --json")
@entity_options
@json_option
@broker_options
@reports_errors
def list_quotas(*, as_json: bool, bootstrap: str, timeout_seconds: float, **options: Any) -> None:
    """List quotas: all of them, or those of entities that have the given names."""
    with Client(bootstrap, timeout_seconds) as client:
        found = describe_quotas(client, _entity(options))
    rows: list[dict[str, Any]] = []
    for entity, quotas in sorted(found, key=lambda one: [str(one[0].get(kind)) for kind in _TYPES]):
        for key, value in sorted(quotas.items()):
            names = {kind.replace("-", "_"): entity[kind] for kind in _TYPES if kind in entity}
            rows.append({**names, "key": key, "value": _number(value)})
    if not as_json:
        for row in rows:
            row.update({name: _DEFAULT for name in ("user", "client_id", "ip") if name in row and row[name] is None})
    columns = {"user": "USER", "client_id": "CLIENT ID", "ip": "IP", "key": "QUOTA", "value": "VALUE"}
    write_rows(rows, columns, as_json=as_json)


@quota.command(
    "set",
    examples="""
    stratalog quota set --client-id etl producer_byte_rate=1048576
    stratalog quota set --default-ip connection_creation_rate=50
    """,
)
@click.argument("values", metavar="KEY=NUMBER...", nargs=-1, required=True, callback=parse_values)
@entity_options
@click.option("--dry-run", is_flag=True, help="Let the broker check the request and change nothing.")
@broker_options
@reports_errors
def set_quotas(
    *, values: dict[str, float], dry_run: bool, bootstrap: str, timeout_seconds: float, **options: Any
) -> None:
    """Set quotas; those that are not named stay.

    Quotas of users and client ids: producer_byte_rate and consumer_byte_rate (bytes a second), request_percentage (of
    one core), controller_mutation_rate (partitions made or deleted a second). Quotas of addresses:
    connection_creation_rate (new connections a second).
    """
    entity = _named(options)
    with Client(bootstrap, timeout_seconds) as client:
        alter_quotas(client, entity, values, validate_only=dry_run)
    note(f"{'Would set' if dry_run else 'Set'} {', '.join(values)} of {_words(entity)}.")


@quota.command(
    "remove",
    examples="stratalog quota remove --client-id etl producer_byte_rate\nstratalog quota remove --user alice --all",
)
@click.argument("keys", metavar="KEY...", nargs=-1)
@entity_options
@click.option("--all", "everything", is_flag=True, help="All quotas of the entity.")
@broker_options
@reports_errors
def remove_quotas(
    *, keys: tuple[str, ...], everything: bool, bootstrap: str, timeout_seconds: float, **options: Any
) -> None:
    """Remove quotas."""
    entity = _named(options)
    if bool(keys) == everything:
        raise click.UsageError("name quotas, or give --all")
    with Client(bootstrap, timeout_seconds) as client:
        present = {key for _, quotas in describe_quotas(client, entity, strict=True) for key in quotas}
        missing = [key for key in keys if key not in present]
        if missing or not present:
            raise NotFoundError(f"{_words(entity)} has no {', '.join(missing) or 'quota'}")
        alter_quotas(client, entity, dict.fromkeys(present if everything else keys))
    note(f"Removed {', '.join(sorted(present) if everything else keys)} of {_words(entity)}.")
