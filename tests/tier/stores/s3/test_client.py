from __future__ import annotations

import ipaddress
import ssl
import subprocess
import sys
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from stratalog.tier.stores.s3.client import S3Settings, client_for
from stratalog.tier.stores.s3.store import S3Store
from stratalog.tier.stores.store import StoreDenied
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


def test_encryption_comes_from_the_option_or_the_environment():
    """Commands that are no broker find the broker's setting in its variable; an option is stronger."""
    environment = {
        "STRATALOG_BUCKET_SERVER_SIDE_ENCRYPTION": "aws:kms",
        "STRATALOG_BUCKET_KMS_KEY_ID": "key",
    }
    assert S3Settings().completed({}).put_options == {}
    found = S3Settings().completed(environment)
    assert found.put_options == {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "key", "BucketKeyEnabled": True}
    own = S3Settings(server_side_encryption="AES256").completed(environment)
    assert own.put_options == {"ServerSideEncryption": "AES256"}
    others = S3Settings().completed({"STRATALOG_BUCKET_CHECKSUM": "md5", "STRATALOG_BUCKET_CA_BUNDLE": "/ca.pem"})
    assert (others.checksum, others.ca_bundle) == ("md5", "/ca.pem")
    twice = S3Settings(server_side_encryption="aws:kms:dsse").completed({})
    assert twice.put_options == {"ServerSideEncryption": "aws:kms:dsse"}


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"server_side_encryption": "rot13"}, "not one of AES256"),
        ({"server_side_encryption": "AES256", "kms_key_id": "k"}, "KMS key was given without"),
        ({"kms_key_id": "k"}, "KMS key was given without"),
        ({"addressing_style": "p"}, "not one of auto, path, virtual"),
        ({"checksum": "crc64"}, "not one of crc32c, md5"),
    ],
)
def test_impossible_options_are_refused(settings, word):
    """Rather than to be sent to a service that may ignore it."""
    with pytest.raises(Invalid, match=word):
        S3Settings(**settings).completed({})


@pytest.mark.story
def test_the_address_may_hold_the_bucket():
    """An own endpoint is addressed by path unless the setting says otherwise."""
    settings = S3Settings("http://127.0.0.1:1", "us-east-1", "a", "b", addressing_style="virtual")
    assert client_for(settings).meta.config.s3["addressing_style"] == "virtual"


@pytest.mark.story
def test_a_private_authority_has_to_be_named(tmp_path):
    """A certificate of an unknown authority is refused for good, with the way out; with its authority it is accepted."""
    certificate = tmp_path / "certificate.pem"
    with serving_tls(certificate, tmp_path / "key.pem") as endpoint:
        own = {"endpoint_url": endpoint, "access_key_id": "a", "secret_access_key": "b"}
        with pytest.raises(StoreDenied, match=r"stratalog\.bucket\.ca\.bundle"):
            S3Store("bucket", S3Settings(**own)).get("k")
        assert S3Store("bucket", S3Settings(**own, ca_bundle=str(certificate))).get("k")[0] == b"hello"


def write_certificate(certificate, key):
    """A key and a certificate for 127.0.0.1 that it signs itself."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stratalog tests")])
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, private.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    signed = builder.add_extension(address, critical=False).sign(private, hashes.SHA256())
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    key.write_bytes(private.private_bytes(*pem))


@contextmanager
def serving_tls(certificate, key):
    """A server on TLS that answers every GET with ``hello``, under a certificate of its own making."""
    write_certificate(certificate, key)

    class Hello(BaseHTTPRequestHandler):
        def log_message(self, *_):
            """Be quiet."""

        def do_GET(self):
            self.send_response(200)
            self.send_header("ETag", '"e"')
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hello)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # a client that does not trust us hangs up
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_credentials_stay_out_of_the_text():
    """Settings can be logged."""
    text = repr(S3Settings(access_key_id="AKIA", secret_access_key="hush", session_token="quiet"))
    assert not any(secret in text for secret in ("AKIA", "hush", "quiet"))


@pytest.mark.story
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
        "import sys, stratalog.tier.stores.s3.store, stratalog.tier.stores.opening\n"
        "from stratalog.tier import open_store\n"
        "open_store('memory:x')\n"
        "assert not {'boto3', 'botocore', 'fsspec'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
