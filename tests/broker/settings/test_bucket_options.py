from __future__ import annotations

import pytest

from stratalog.broker.settings.bucket_options import S3_SETTINGS, SINGLE_WRITER, bucket_options, misplaced_settings
from stratalog.broker.settings.config import Flags, load_config
from stratalog.tier.stores.s3.client import S3Settings
from stratalog.wire.errors import Invalid

NOTHING = {**dict.fromkeys(S3_SETTINGS), SINGLE_WRITER: False}


def load(*assignments: str, bucket: str = "s3://archive"):
    """A configuration from settings."""
    flags = Flags(data="/d", bucket=bucket)
    return load_config(assignments=assignments, environment={}, flags=flags, host_name="h")


def test_only_given_settings_become_options():
    """Where a setting is silent, the store's own default holds."""
    assert bucket_options(NOTHING) == {}
    assert bucket_options({**NOTHING, "stratalog.bucket.region": "x", SINGLE_WRITER: True}) == {
        "region": "x",
        "single_writer": True,
    }


def test_every_setting_is_a_field_of_the_s3_settings():
    """A name that the store does not know would end the start with a programmer's error."""
    S3Settings(**dict.fromkeys(S3_SETTINGS.values()))


def test_the_broker_takes_them_from_its_configuration():
    """Encryption, certificates and addresses, under their names in a properties file."""
    config = load(
        "stratalog.bucket.server.side.encryption=aws:kms",
        "stratalog.bucket.kms.key.id=arn:aws:kms:eu-west-1:1:key/2",
        "stratalog.bucket.ca.bundle=/etc/ca.pem",
        "stratalog.bucket.addressing.style=virtual",
    )
    assert config.bucket_options == {
        "server_side_encryption": "aws:kms",
        "kms_key_id": "arn:aws:kms:eu-west-1:1:key/2",
        "ca_bundle": "/etc/ca.pem",
        "addressing_style": "virtual",
    }


@pytest.mark.parametrize(
    ("bucket", "assignment", "word"),
    [
        ("file:///b", "stratalog.bucket.endpoint.url=http://x:1", "is for s3:// buckets"),
        ("gs://b", "stratalog.bucket.server.side.encryption=AES256", "is for s3:// buckets"),
        ("s3://b", "stratalog.bucket.kms.key.id=k", "KMS key also needs the encryption"),
        ("s3://b", "stratalog.bucket.server.side.encryption=rot13", "must be one of: AES256, aws:kms"),
        ("s3://b", "stratalog.bucket.addressing.style=p", "must be one of: auto, path, virtual"),
    ],
)
def test_settings_without_a_meaning_are_refused(bucket, assignment, word):
    """Encryption that is asked for and silently not done would be worse than none."""
    with pytest.raises(Invalid, match=word):
        load(assignment, bucket=bucket)


def test_no_setting_is_misplaced_by_default():
    """Without any of these settings every store may be named."""
    for url in (None, "memory:", "file:///x", "s3://b", "gs://b"):
        assert misplaced_settings(url, NOTHING) == []
