from __future__ import annotations

import json
import re
import sys
import threading

import pytest
from botocore.exceptions import ClientError

from stratalog.tier.stores.s3.credentials import RENEWAL_PAUSE_S, RenewingClient, says_expired
from stratalog.tier.stores.source_reader import SourceReader
from stratalog.tier.stores.store import StoreDenied

EXPIRED = {"action": "status", "status": 400, "code": "ExpiredToken"}


def refusal(code):
    """The exceptions of boto3."""
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "PutObject")


class FakeClient:
    """A client that knows one generation of credentials; ``service`` tells which one is valid."""

    def __init__(self, service):
        self.service = service
        self.generation = service["newest"]
        service["made"] += 1

    meta = "meta"

    def put_object(self, **arguments):
        self.service["calls"].append(self.generation)
        if "Body" in arguments:
            arguments["Body"] = arguments["Body"].read()
        if self.generation < self.service["valid"]:
            raise refusal(self.service["code"])
        return arguments


@pytest.fixture
def service():
    """A service on which credentials expire."""
    return {"newest": 0, "valid": 0, "made": 0, "calls": [], "code": "ExpiredToken"}


@pytest.fixture
def client(service, virtual_time):
    """A renewing client of it."""
    return RenewingClient(lambda: FakeClient(service), timing=virtual_time)


def test_expired_credentials_are_found_anew(client, service):
    """The refused call is made once more, and what follows uses the new ones at once."""
    assert client.put_object(Key="a") == {"Key": "a"}
    service.update(newest=1, valid=1)
    assert client.put_object(Key="b") == {"Key": "b"}
    client.put_object(Key="c")
    assert (service["calls"], service["made"]) == ([0, 0, 1, 1], 2)
    assert client.meta == "meta"


def test_a_body_that_was_read_by_the_refused_call_is_sent_whole(client, service):
    """A service that answers late has taken all of it: the next one would get an empty object."""
    service.update(newest=1, valid=1)
    with SourceReader([b"abc", b"def"]) as reader:
        assert client.put_object(Body=reader) == {"Body": b"abcdef"}


def test_it_is_tried_once_a_while(client, service, virtual_time):
    """Where there are no newer credentials, calls fail at once until some time has passed."""
    service.update(valid=1)
    for _ in range(3):
        with pytest.raises(ClientError, match="ExpiredToken"):
            client.put_object(Key="a")
    assert service["made"] == 2
    service.update(newest=1)
    virtual_time.now += RENEWAL_PAUSE_S
    client.put_object(Key="a")
    assert service["made"] == 3


def test_other_refusals_are_final(client, service):
    """Access that is denied stays so, whatever the credentials' age."""
    service.update(valid=1, newest=1, code="AccessDenied")
    with pytest.raises(ClientError, match="AccessDenied"):
        client.put_object(Key="a")
    assert service["made"] == 1
    assert not says_expired("NoSuchKey")


def test_many_threads_renew_once(client, service):
    """Uploads in flight are all refused together: one of them finds the new credentials for all."""
    service.update(newest=1, valid=1)
    start = threading.Barrier(8)
    failed = []

    def call():
        start.wait()
        try:
            client.put_object(Key="a")
        except ClientError as error:
            failed.append(error)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert service["made"] == 2


@pytest.fixture
def key_ids(fault_proxy):
    """The access keys of the requests that came by."""
    return lambda: [re.search(r"Credential=(\w+)/", one.headers["Authorization"])[1] for one in fault_proxy.seen()]


@pytest.fixture
def no_credentials(monkeypatch, s3_service):
    """An environment without any, and a service that does not mind which there are."""
    if not s3_service.is_moto:
        pytest.skip("the service would have to know the credentials made up here")
    s3_service.credentials = {}
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    yield
    s3_service.credentials = {"access_key_id": "test", "secret_access_key": "test"}


@pytest.mark.story
def test_a_rotated_file_is_read_again(no_credentials, fault_proxy, key_ids, monkeypatch, tmp_path):
    """An agent writes new keys into the shared file: the call that meets the end of the old ones goes through."""
    path = tmp_path / "credentials"
    path.write_text("[default]\naws_access_key_id=OLD\naws_secret_access_key=x\naws_session_token=t\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    store = fault_proxy.open(retry=None, connections=17)
    store.put("k", b"1")
    path.write_text("[default]\naws_access_key_id=NEW\naws_secret_access_key=y\naws_session_token=u\n")
    fault_proxy.rules(EXPIRED)
    store.put_if_absent("other", b"2")
    assert key_ids() == ["OLD", "NEW"]
    assert store.get("other")[0] == b"2"
    fault_proxy.rules({**EXPIRED, "count": 3})
    with pytest.raises(StoreDenied, match="renew the credentials"):
        store.put("k", b"3")


def test_credentials_with_an_end_are_renewed_before_it(no_credentials, fault_proxy, key_ids, monkeypatch, tmp_path):
    """A credential process (as roles and web identities do) is asked again when its answer is about to end."""
    process = tmp_path / "give.py"
    count = tmp_path / "count"
    answer = {"Version": 1, "SecretAccessKey": "x", "SessionToken": "t", "Expiration": "2020-01-01T00:00:00Z"}
    process.write_text(
        "import datetime, json, pathlib\n"
        f"path = pathlib.Path({str(count)!r})\n"
        "number = int(path.read_text()) + 1 if path.exists() else 1\n"
        "path.write_text(str(number))\n"
        f"answer = {json.dumps(answer)}\n"
        "answer['AccessKeyId'] = f'KEY{number}'\n"
        "end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=60)\n"
        "answer['Expiration'] = end.isoformat()\n"
        "print(json.dumps(answer))\n"
    )
    config = tmp_path / "config"
    config.write_text(f"[default]\ncredential_process = {sys.executable} {process}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    store = fault_proxy.open(retry=None, connections=18)
    fault_proxy.rules()
    store.put("k", b"1")
    store.put("k", b"2")
    first, second = key_ids()
    assert first != second
