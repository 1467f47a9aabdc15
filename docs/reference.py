"""The reference pages of the manual, made from what they describe: settings from the catalogue, commands from click.

``docs/generate.py`` writes them; a test compares them with what would be written now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import click

from stratalog.broker.settings.environment import variable_name
from stratalog.cli.main import cli
from stratalog.cli.output import EXIT_CODE_TEXTS
from stratalog.metadata.settings.by_name import IGNORED_PREFIXES
from stratalog.metadata.settings.configs import (
    ConfigDef,
    client_metrics_definitions,
    definitions,
    format_value,
    group_definitions,
    topic_definitions,
)

__all__ = ["PAGES", "cli_page", "configuration_page"]

WIDTH: Final = 100
GENERATED: Final = "<!-- made by docs/generate.py; change the definitions, not this page -->"
OWN_PREFIX: Final = "stratalog."

CONFIGURATION_HEAD: Final = f"""{GENERATED}

# Configuration

All settings of a broker go under Kafka's names. A stock Kafka 4.3 `server.properties` is taken as it is.

## Where settings come from

Later places win:

| place | form |
|---|---|
| defaults | this page |
| `--config FILE` | Java properties, or TOML if the name ends in `.toml`: tables, dotted or quoted keys spell the same names, lists are joined by commas |
| environment | `STRATALOG_` and the name in capitals, dots as underscores: `STRATALOG_LOG_SEGMENT_BYTES` is `log.segment.bytes`, `STRATALOG_BUCKET_URL` is `stratalog.bucket.url`. Kubernetes' links to a Service called stratalog are passed over |
| `--set NAME=VALUE` | may be repeated |
| `--data DIR` | `log.dirs` |
| `--bucket URL` | `stratalog.bucket.url` |
| `--listen HOST:PORT` | `listeners=PLAINTEXT://HOST:PORT`; `advertised.listeners` of file and environment no longer hold |
| `--http HOST:PORT` | `stratalog.http.listener` |

The environment stands above the file: a stock file already names most settings, and the variable of a container is
meant to change them. `stratalog serve … --print-config` shows every setting with its value and the place it came from.

An unknown name ends the start with exit code 2 and the nearest known name; so do the names of ZooKeeper and those that
Kafka removed, with what to do instead. A name that Kafka knows and that changes nothing here is accepted and logged
with the reason, one line each ([the list](#accepted-without-effect)).

A properties file is read as UTF-8, or as Latin-1 (Java's way) if it is not valid UTF-8. A setting that stands twice
counts as Java counts it, the last one, and is logged.

## While the broker runs

A setting whose column "changeable" says `per-broker` or `cluster-wide` can be changed with `kafka-configs` or any admin
client, for one broker or for all of them; it is kept in the metadata log, stands above every place of the table, and is
in force when the answer leaves: topics without a setting of their own follow it, limits of connections hold for those
that come then, the rate of uploads for the next upload. Any other is refused with INVALID_REQUEST until the broker is
started anew. Levels of loggers change the same way (`kafka-configs --entity-type broker-loggers`) and last until the
process ends.

## Listeners

`listeners=NAME://HOST:PORT,…`. No host is every interface, port 0 is any free port; names are unique in any case, ports
are unique except for one IPv4 and one IPv6 address. `listener.security.protocol.map` gives names their protocol; in this
release only PLAINTEXT is served. Clients get `advertised.listeners`, or the listeners themselves, with the
name of the machine for one that is open on every interface. Listeners named by `controller.listener.names` may stand
there; nothing listens on them while the quorum is this process alone.
"""


def configuration_page() -> str:
    """`docs/configuration.md`."""
    rows = [row for row in definitions().values() if not row.internal]
    own = [row for row in rows if row.name.startswith(OWN_PREFIX)]
    used = [row for row in rows if row.has_effect and row not in own]
    unused = [row for row in [*rows, *topic_definitions().values()] if not row.has_effect]
    parts = [
        CONFIGURATION_HEAD,
        "## Our own settings\n\nKafka has no counterpart of these.\n",
        *_table(own),
        "## Broker settings\n\nKafka's names. A default that differs from Kafka's says so.\n",
        *_table(used),
        (
            "## Topic settings\n\nSet with `stratalog topic create` and `alter`, or any Kafka tool. Without one the broker "
            "setting named in the last column is the default.\n"
        ),
        *_topic_table(row for row in topic_definitions().values() if row.has_effect),
        "## Group settings\n",
        *_table(group_definitions().values()),
        "## Client metrics settings\n\nKept and told; clients push no metrics in this release.\n",
        *_table(client_metrics_definitions().values()),
        "## Accepted without effect\n",
        *_unused_table(unused),
    ]
    return "\n".join(parts) + "\n"


def _table(rows: Iterable[ConfigDef]) -> Iterator[str]:
    yield "| name | type | default | values | changeable | meaning |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        yield (
            f"| `{row.name}` | {row.type.name.lower()} | {_default(row)} | {_escaped(row.valid_values)} "
            f"| {row.update_mode.value} | {_escaped(row.doc)} |"
        )
    yield ""


def _topic_table(rows: Iterable[ConfigDef]) -> Iterator[str]:
    yield "| name | type | default | values | meaning | broker setting |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        synonyms = ", ".join(f"`{synonym.name}`" for synonym in row.synonyms)
        yield (
            f"| `{row.name}` | {row.type.name.lower()} | {_default(row)} | {_escaped(row.valid_values)} "
            f"| {_escaped(row.doc)} | {synonyms} |"
        )
    yield ""


def _unused_table(rows: Iterable[ConfigDef]) -> Iterator[str]:
    yield "| name | why |"
    yield "|---|---|"
    reasons: Mapping[str, str] = {row.name: row.why_not or "" for row in rows}
    for name, reason in sorted(reasons.items()):
        yield f"| `{name}` | {_escaped(reason)} |"
    for prefix, reason in sorted(IGNORED_PREFIXES.items()):
        yield f"| `{prefix}…` | {_escaped(reason)} |"
    yield "| `listener.name.…` | in this release a setting holds for all listeners |"


def _default(row: ConfigDef) -> str:
    shown = "" if row.default_text is None else f"`{row.default_text}`" if row.default_text else ""
    if row.kafka_default is None:
        return shown
    return f"{shown} (Kafka: `{format_value(row.kafka_default)}`)"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def cli_page() -> str:
    """`docs/cli.md`."""
    codes = "\n".join(f"| {int(code)} | {text} |" for code, text in EXIT_CODE_TEXTS.items())
    parts = [
        f"{GENERATED}\n\n# Command line\n",
        (
            "Results go to stdout, everything else to stderr. With `--json` a result is one JSON object a line; bytes that "
            'are no UTF-8 are shown as `{"base64": "…"}`. Tables are ruled on a terminal and plain aligned text elsewhere; '
            "`NO_COLOR` is honoured.\n"
        ),
        f"| exit code | meaning |\n|---|---|\n{codes}\n",
        (
            f"`{variable_name('bootstrap')}` and `{variable_name('http')}` stand for `--bootstrap-server` and `--http` of "
            f"the commands that talk to a broker, `{variable_name('config')}` for `--config` of `serve`.\n"
        ),
        'Completion of commands and options: `eval "$(_STRATALOG_COMPLETE=bash_source stratalog)"`, or `zsh_source`.\n',
        *_command_sections(cli, "stratalog", level=2),
    ]
    return "\n".join(parts)


def _command_sections(command: click.Command, name: str, level: int) -> Iterator[str]:
    context = click.Context(command, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH)
    yield f"{'#' * level} {name}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            yield from _command_sections(found, f"{name} {child}", min(level + 1, 4))


PAGES: Final = {"configuration.md": configuration_page, "cli.md": cli_page}
"""Name below ``docs/`` and what makes it."""
