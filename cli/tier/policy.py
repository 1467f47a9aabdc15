"""``stratalog tier policy``: what each role has to be allowed in an S3 bucket."""

from __future__ import annotations

import json

import click

from stratalog.cli.command import command
from stratalog.cli.output import reports_errors
from stratalog.tier.planning.access_policy import ROLES, access_policy

__all__ = ["policy"]


@command(
    "policy",
    """
    stratalog tier policy --role broker --bucket s3://archive/prod
    stratalog tier policy --role spark --bucket s3://archive/prod --principal arn:aws:iam::111122223333:role/spark
    """,
)
@click.option(
    "--role",
    type=click.Choice(ROLES),
    required=True,
    help="broker: also repair, restore and other commands that write; spark: reads, and writes leases; "
    "scrub: tier verify, which only reads.",
)
@click.option("--bucket", required=True, metavar="URL", help="The archive: s3://bucket/prefix.")
@click.option(
    "--principal", metavar="ARN", help="Make it a bucket policy for this user or role, instead of one to attach to it."
)
@click.option("--kms-key", metavar="ARN", help="The key, if objects are encrypted by KMS; not with --principal.")
@reports_errors
def policy(*, role: str, bucket: str, principal: str | None, kms_key: str | None) -> None:
    """Print the least-privilege policy of a role for a bucket, as JSON; nothing is asked of the bucket.

    It allows the requests that this release makes for the role, and no others.
    """
    if principal is not None and kms_key is not None:
        raise click.UsageError("A bucket policy cannot speak of a key: allow it in the key's own policy.")
    click.echo(json.dumps(access_policy(role, bucket, principal=principal, kms_key=kms_key), indent=2))
