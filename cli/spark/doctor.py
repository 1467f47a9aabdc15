"""``stratalog doctor``: what is missing to read archives with Spark or Python, and how to mend it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stratalog.spark.sessions.doctor import Finding
    from stratalog.tier.stores.store import ObjectStore

__all__ = ["EXAMPLES", "doctor"]

EXAMPLES: Final = """
stratalog doctor
stratalog doctor --bucket s3://archive/prod --region eu-central-1
stratalog doctor --json
"""
_UNHEALTHY: Final = 4


@click.command("doctor")
@click.option("--bucket", metavar="URL", help="Also try this archive: s3://bucket/prefix, file:///path or another URL.")
@click.option("--endpoint-url", metavar="URL", help="Another S3 server than Amazon's.")
@click.option("--region", metavar="NAME", help="The bucket's region.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line on stdout.")
def doctor(*, bucket: str | None, endpoint_url: str | None, region: str | None, as_json: bool) -> None:
    """Look at this machine, and at a bucket, for what reading archives needs: Python's packages, Java, the interpreter of
    Spark's executors, the registration of the format, unix sockets; the reach of the bucket, credentials and rights.

    The command changes nothing, but writes a lease to the bucket and removes it, as every read does. Exit code 0: all
    that is needed is there; 4: something is missing, and the output says how to mend it.
    """
    from msgspec.structs import replace

    from stratalog.spark.sessions.doctor import Status, diagnose
    from stratalog.spark.sessions.machine_facts import bucket_facts, machine_facts

    facts = machine_facts()
    if bucket is not None:
        facts = replace(facts, bucket=bucket_facts(bucket, lambda: _open(bucket, endpoint_url, region)))
    findings = diagnose(facts)
    if as_json:
        for each in findings:
            click.echo(json.dumps(each._asdict()))
    else:
        _show(findings)
    if any(each.status is Status.FAILED for each in findings):
        raise SystemExit(_UNHEALTHY)


def _open(url: str, endpoint_url: str | None, region: str | None) -> ObjectStore:
    from stratalog.tier import open_store

    if url.startswith("s3:"):
        given = {"endpoint_url": endpoint_url, "region": region}
        return open_store(url, **{name: value for name, value in given.items() if value is not None})
    return open_store(url, create=False) if url.startswith("file:") else open_store(url)


def _show(findings: Sequence[Finding]) -> None:
    width = max(len(each.check) for each in findings)
    for each in findings:
        click.echo(f"{each.status.value:<6}  {each.check:<{width}}  {each.found}")
        if each.fix:
            click.echo(f"{'':<6}  {'':<{width}}  fix: {each.fix}")
