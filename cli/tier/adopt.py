"""``stratalog tier adopt``: have a stopped broker's data directory archive to another bucket."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from stratalog.cli.bucket import bucket_options, open_bucket
from stratalog.cli.command import command
from stratalog.cli.output import json_option, note, reports_errors, write_json

__all__ = ["adopt"]

EXAMPLES: Final = """
stratalog tier adopt --data /var/lib/stratalog --bucket s3://archive-copy/prod
stratalog tier adopt --data /var/lib/stratalog --bucket s3://new/prod --give-up scratch
"""


@command("adopt", EXAMPLES)
@bucket_options
@click.option(
    "--data", "directories", multiple=True, required=True, metavar="DIR",
    help="The broker's log.dirs, each; that of its metadata first.",
)  # fmt: skip
@click.option(
    "--give-up", "given_up", multiple=True, metavar="TOPIC",
    help="This topic may lose all offsets below the first one on the disk; may be repeated.",
)  # fmt: skip
@json_option
@reports_errors
def adopt(
    *,
    bucket: str,
    endpoint_url: str | None,
    region: str | None,
    directories: Sequence[str],
    given_up: Sequence[str],
    as_json: bool,
) -> None:
    """Archive to another bucket from now on; the broker must be stopped.

    A data directory remembers its bucket, and a broker does not start on another one. A copy that was made with the
    bucket's own documents (aws s3 sync) is the same bucket and needs no command. Partitions that the new bucket has as
    far as they were archived go on there; others begin there with what is on the disk. Where the new bucket ends
    below the first offset on the disk, the command is refused unless the topic is named with --give-up: then the log
    begins at that offset, and what the new bucket has of the topic leaves it as trash. So it is where the new bucket begins
    above the log start: then the log begins where its archive does. Archives that a restore with --takeover has made those of
    another cluster are refused: this one could write nothing there. The old bucket is neither read
    nor changed.
    """
    from stratalog.broker.replicas.directory_loading import lock_directory
    from stratalog.broker.restore.adoption import adopt_bucket, plan_adoption
    from stratalog.hot.storage.filesystem import RealFilesystem

    store, files = open_bucket(bucket, endpoint_url, region), RealFilesystem()
    paths = [str(Path(one).absolute()) for one in directories]
    locks = [lock_directory(path) for path in paths]
    try:
        adoption = plan_adoption(files, paths, store)
        known = adopt_bucket(files, adoption, store, bucket, home=paths[0], given_up=given_up)
    finally:
        for lock in locks:
            os.close(lock)
    rows = [one for rows in adoption.partitions.values() for one in rows]
    anew = sum(not one.is_there for one in rows)
    if as_json:
        lost = [[*one.name, *one.lost] for one in adoption.losses]
        write_json({"bucket_id": known.bucket_id, "partitions": len(rows), "anew": anew, "lost": lost})
    for one in adoption.losses:
        note(f"{one.name}: offsets [{one.lost[0]}, {one.lost[1]}) are given up.")
    note(f"{bucket} is the bucket from now on: {len(rows) - anew} archives go on there, {anew} begin anew.")
