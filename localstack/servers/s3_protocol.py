"""Starts any S3 service in the same way: its credentials, and how a bucket is made."""

from __future__ import annotations

from servers.errors import NotReady

ACCESS_KEY = "stratalog"
SECRET_KEY = "stratalog-secret"  # a local service on loopback: no secret
REGION = "us-east-1"


def s3_clients(endpoint_url: str) -> dict[str, str]:
    """The environment variables with which S3 clients find a service."""
    return {
        "AWS_ENDPOINT_URL_S3": endpoint_url,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
    }


def make_s3_bucket(endpoint_url: str, bucket: str) -> None:
    """Make a bucket unless there is one. Raises `NotReady` if the service does not answer a signed request."""
    import boto3.session  # noqa: PLC0415 - slow, and the message of a missing program should come first
    from botocore.config import Config  # noqa: PLC0415 - same
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - same

    client = boto3.session.Session().client(
        "s3",
        endpoint_url=endpoint_url,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name=REGION,
        config=Config(
            s3={"addressing_style": "path"},
            connect_timeout=1,
            read_timeout=10,
            retries={"mode": "standard", "total_max_attempts": 1},
        ),
    )
    try:
        names = {entry["Name"] for entry in client.list_buckets()["Buckets"]}
        if bucket not in names:
            client.create_bucket(Bucket=bucket)
    except (BotoCoreError, ClientError) as error:
        raise NotReady(str(error)) from error
