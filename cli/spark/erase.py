"""``stratalog erase``: records of a key, or of a predicate, leave an archive, by Spark and without a broker.

Also ``python -m stratalog.spark erase``, and ``spark-submit`` with ``stratalog/spark/jobs/erase.py``.
"""

from __future__ import annotations

import base64
import binascii
import getpass
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stratalog.cli.output import bytes_text
from stratalog.cli.spark.rewrite import read_options, rewrite_options, rewrite_topics, tell, tell_unread
from stratalog.wire.errors import Invalid

if TYPE_CHECKING:
    from stratalog.spark.rewrite.erase import EraseSettings, ErasureSummary

__all__ = ["EXAMPLES", "erase"]

EXAMPLES: Final = """
stratalog erase --bucket s3://archive/prod --topic customers --key c-4711 --dry-run
stratalog erase --bucket s3://archive/prod --topic customers --key-file gone.txt --note "request 311"
stratalog erase --bucket s3://archive/prod --topic orders --where "get_json_object(cast(value as string), '$.customer') = 'c-4711'"
"""


@click.command("erase")
@rewrite_options
@click.option("--topic", "topics", required=True, multiple=True, metavar="TOPIC", help="Where to erase; may be repeated.")  # fmt: skip
@click.option("--key", "keys", multiple=True, metavar="KEY", help="Erase the records with this key; may be repeated.")
@click.option("--key-file", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="Erase those with the keys of this file, one a line; empty lines are passed over.")  # fmt: skip
@click.option("--key-encoding", type=click.Choice(["utf8", "hex", "base64"]), default="utf8", show_default=True, help="How keys are written here.")  # fmt: skip
@click.option("--where", default="", metavar="SQL", help="Erase the records for which this predicate of Spark SQL holds, over the columns of the Spark source.")  # fmt: skip
@click.option("--by", default="", metavar="NAME", help="Name for the record of the erasure; else user and host.")
@click.option("--note", default="", metavar="TEXT", help="Why, for the record of it. Do not write what is erased.")
def erase(**given: Any) -> None:
    """Erase records from the archive of a topic; all others stay at their offsets.

    The command looks through what is archived when it begins, aborted records too. Objects that hold such records are
    written anew without them; the old ones go to the trash, and from the bucket when the broker empties that. A record of
    the erasure is kept under audit/ in the bucket, with hashes in the place of keys. Not erased is what brokers still hold
    on their own disks, what is not archived yet, and what others have copied. Killed, run it again. Exit code 1: some
    objects could not be rewritten, for the reasons told, or some batches not be read: they stay as they stand.
    """
    from stratalog.spark.rewrite.erase import erase as run

    def report(summary: ErasureSummary, seconds: float) -> bool:
        _tell(summary, given, seconds)
        tell_unread(
            summary.run,
            "it stays as it stands, and records in it that were to be erased are NOT ERASED. It goes when retention or "
            "DeleteRecords has passed over it.",
        )
        return summary.is_whole

    rewrite_topics(given, "erase", [_settings(given, topic) for topic in given["topics"]], run, report)


def _settings(given: Mapping[str, Any], topic: str) -> EraseSettings:
    from stratalog.spark.rewrite.erase import EraseSettings

    texts = list(given["keys"])
    if given["key_file"]:
        texts += _lines(Path(given["key_file"]))
    return EraseSettings(
        topic=topic,
        read=read_options(given, topic),
        keys=_keys(texts, given["key_encoding"]),
        where=given["where"],
        by=given["by"] or f"{getpass.getuser()}@{socket.gethostname()}",
        note=given["note"],
        task_bytes=given["task_bytes"],
        take_over=given["take_over"],
        dry_run=given["dry_run"],
        storage_class=given["storage_class"],
    )


def _lines(file: Path) -> list[str]:
    """The lines that are not empty. Only a line feed, with or without a carriage return, ends one: keys hold anything else."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"{file} is no UTF-8: {error}; write keys that are no text with --key-encoding hex") from error
    return [line for line in (each.removesuffix("\r") for each in text.split("\n")) if line]


def _keys(texts: Sequence[str], encoding: str) -> tuple[bytes, ...]:
    try:
        if encoding == "hex":
            return tuple(bytes.fromhex(text) for text in texts)
        if encoding == "base64":
            return tuple(base64.b64decode(text, validate=True) for text in texts)
    except (ValueError, binascii.Error) as error:
        raise Invalid(f"a key is not written in {encoding}: {error}") from error
    return tuple(text.encode("utf-8", "surrogateescape") for text in texts)  # as the command line had its bytes


def _tell(summary: ErasureSummary, given: Mapping[str, Any], seconds: float) -> None:
    run = summary.run
    if given["as_json"]:
        held = {"audit": summary.audit_key, "cuts": list(summary.cuts), "leases": summary.leases}
        tell(run, seconds, dry_run=given["dry_run"], as_json=True, erased=summary.erased, **held)
        return
    if not run.objects:
        tell(run, seconds, dry_run=given["dry_run"], as_json=False)
        return
    tense = "would be" if given["dry_run"] else "were"
    click.echo(
        f"{run.topic}: {summary.erased:,} of {run.records:,} records {tense} erased, from {run.rewritten_objects} of "
        f"{run.objects} objects; {run.gets:,} GETs of {bytes_text(run.scan_bytes)}, {seconds:.1f} s."
    )
    if summary.audit_key:
        click.echo(f"  record of it: {summary.audit_key}")
    if run.rewritten_objects and not given["dry_run"]:
        click.echo(
            f"  {run.rewritten_objects} old objects are in the trash until the broker empties it, after its grace."
        )
        if summary.leases:
            click.echo(f"  {summary.leases} leases of readers may hold them longer.")
    for cut in summary.cuts:
        click.echo(f"  The cut {cut} holds old objects for as long as it exists: delete it to have them go.")
    for reason in [*run.failed, *run.refused]:
        click.echo(f"Left as it was: {reason}", err=True)
