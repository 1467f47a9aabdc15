from __future__ import annotations

import subprocess
import sys

import pytest

from stratalog.tier.s3_client import S3Settings, client_for
from stratalog.wire.errors import Invalid


def test_the_endpoint_comes_from_the_strongest_source():
    """An option beats AWS_ENDPOINT_URL_S3, which beats AWS_ENDPOINT_URL, which beats S3_ENDPOINT."""
    environment = {"S3_ENDPOINT": "http://d:1"}
    assert S3Settings().completed(environment).endpoint_url == "http://d:1"
    environment["AWS_ENDPOINT_URL"] = "http://c:1/"
    assert S3Settings().completed(environment).endpoint_url == "http://c:1"
    environment["AWS_ENDPOINT_URL_S3"] = "http://b:1"
    assert S3Settings().completed(environment).endpoint_url == "http://b:1"
    assert S3Settings(endpoint_url="http://a:1").completed(environment).endpoint_url == "http://a:1"


def test_an_own_endpoint_has_a_region():
    """Services other than Amazon's need some region to sign with; Amazon's own is left to boto3."""
    assert S3Settings().completed({}).region is None
    assert S3Settings(endpoint_url="http://a:1").completed({}).region == "us-east-1"
    assert S3Settings(endpoint_url="http://a:1").completed({"AWS_REGION": "eu-west-1"}).region == "eu-west-1"
    assert S3Settings(endpoint_url="http://a:1", region="x").completed({"AWS_REGION": "eu-west-1"}).region == "x"


def test_an_endpoint_without_scheme_is_refused():
    """A host and port alone would be taken for a scheme by the SDK."""
    with pytest.raises(Invalid, match="write http://host:port"):
        S3Settings(endpoint_url="localhost:9000").completed({})


@pytest.mark.parametrize(
    ("endpoint", "trusted", "unsigned"),
    [
        (None, False, True),
        ("https://s3.example.org", False, True),
        ("http://127.0.0.1:9000", False, True),
        ("http://localhost", False, True),
        ("http://[::1]:9000", False, True),
        ("http://store.example.org", False, False),
        ("http://store.example.org", True, True),
    ],
)
def test_payloads_are_signed_on_open_networks(endpoint, trusted, unsigned):
    """Only TLS, loopback and networks declared trusted carry bodies without a signature."""
    settings = S3Settings(endpoint_url=endpoint, trusted_network=trusted)
    assert settings.unsigned_payload is unsigned


def test_credentials_stay_out_of_the_text():
    """Settings can be logged."""
    text = repr(S3Settings(access_key_id="AKIA", secret_access_key="hush", session_token="quiet"))
    assert not any(secret in text for secret in ("AKIA", "hush", "quiet"))


def test_equal_settings_share_a_client():
    """A process makes one client for the same settings, path style for an own endpoint, three attempts."""
    settings = S3Settings("http://127.0.0.1:1", "us-east-1", "a", "b")
    client = client_for(settings)
    assert client_for(S3Settings("http://127.0.0.1:1", "us-east-1", "a", "b")) is client
    assert client_for(S3Settings("http://127.0.0.1:2", "us-east-1", "a", "b")) is not client
    assert client.meta.config.s3["addressing_style"] == "path"
    assert client.meta.config.retries["total_max_attempts"] == 3


def test_boto3_is_imported_only_for_s3():
    """Importing the room, and opening a store that is not S3, costs no import of boto3."""
    script = (
        "import sys, stratalog.tier.s3_store, stratalog.tier.opening\n"
        "from stratalog.tier import open_store\n"
        "open_store('memory:x')\n"
        "assert not {'boto3', 'botocore', 'fsspec'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
