"""Tries out how an S3 service behaves where services differ. stratalog relies on almost none of it.

::

    python localstack/run_s3.py minio --install -- python localstack/quirks.py

Prints a line for each question. The service is that of the AWS variables; ``--bucket`` names an existing bucket, in
which everything lies below a prefix of its own and is removed afterwards.
"""

from __future__ import annotations

import argparse
import sys
import uuid
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import boto3.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

PART_BYTES = 5 << 20
QUESTIONS: list[tuple[str, Callable[[Trial], bool]]] = []


def question(text: str) -> Callable[[Callable[[Trial], bool]], Callable[[Trial], bool]]:
    """Register a check under what it asks; True is what Amazon S3 does."""

    def register(check: Callable[[Trial], bool]) -> Callable[[Trial], bool]:
        QUESTIONS.append((text, check))
        return check

    return register


@dataclass(frozen=True, slots=True)
class Trial:
    """A place in a bucket, and a client for it."""

    client: Any
    bucket: str
    prefix: str

    def key(self, name: str = "") -> str:
        """A key that no other check uses."""
        return f"{self.prefix}/{uuid.uuid4().hex}{name and '/'}{name}"

    def put(self, key: str, body: bytes = b"1", **options: Any) -> Any:
        """One PUT."""
        return self.client.put_object(Bucket=self.bucket, Key=key, Body=body, **options)

    def get(self, key: str) -> bytes:
        """The whole object."""
        data: bytes = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return data

    def refused(self, call: Callable[[], Any], *statuses: int) -> bool:
        """Whether a call ends with one of these HTTP statuses (none: any error); others are raised."""
        try:
            call()
        except ClientError as error:
            if statuses and error.response["ResponseMetadata"]["HTTPStatusCode"] not in statuses:
                raise
            return True
        return False

    def keys(self, prefix: str, **options: Any) -> list[str]:
        """One page of a listing."""
        page = self.client.list_objects_v2(Bucket=self.bucket, Prefix=prefix, **options)
        return [entry["Key"] for entry in page.get("Contents", ())]

    def upload(self, key: str, **options: Any) -> str:
        """Begin a multipart upload."""
        answer = self.client.create_multipart_upload(Bucket=self.bucket, Key=key, **options)
        return str(answer["UploadId"])

    def complete(self, key: str, upload_id: str, **options: Any) -> Any:
        """Send one part and complete; a function that completes again is what is returned."""
        whole = {"Bucket": self.bucket, "Key": key, "UploadId": upload_id}
        part = self.client.upload_part(**whole, PartNumber=1, Body=bytes(PART_BYTES))
        parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        self.client.complete_multipart_upload(**whole, MultipartUpload=parts, **options)
        return lambda: self.client.complete_multipart_upload(**whole, MultipartUpload=parts, **options)


@question("a second create (If-None-Match) is refused; of 16 at once one wins, 10 times over")
def _creates(trial: Trial) -> bool:
    def create(key: str) -> bool:
        return not trial.refused(lambda: trial.put(key, IfNoneMatch="*"), 409, 412)

    for _ in range(10):
        key = trial.key()
        with ThreadPoolExecutor(16) as pool:
            if sum(pool.map(create, [key] * 16)) != 1:
                return False
    return not create(key)


@question("a stale replacement (If-Match) is refused; 8 writers that count to 80 lose no step")
def _swaps(trial: Trial) -> bool:
    key = trial.key()
    trial.put(key, b"0")

    def count(steps: int) -> None:
        while steps:
            answer = trial.client.get_object(Bucket=trial.bucket, Key=key)
            body = b"%d" % (int(answer["Body"].read()) + 1)
            tag = answer["ETag"]
            steps -= not trial.refused(lambda body=body, tag=tag: trial.put(key, body, IfMatch=tag), 409, 412)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, [10] * 8))
    return trial.get(key) == b"80"


@question("a wrong CRC-32C is refused")
def _crc(trial: Trial) -> bool:
    return trial.refused(lambda: trial.put(trial.key(), ChecksumCRC32C="AAAAAA=="), 400)


@question("a wrong Content-MD5 is refused")
def _md5(trial: Trial) -> bool:
    wrong = b64encode(bytes(16)).decode()
    return trial.refused(lambda: trial.put(trial.key(), ContentMD5=wrong), 400)


@question("a wrong CRC-32C over all parts is refused at completion")
def _full_crc(trial: Trial) -> bool:
    key = trial.key()
    upload_id = trial.upload(key, ChecksumAlgorithm="CRC32C", ChecksumType="FULL_OBJECT")
    return trial.refused(lambda: trial.complete(key, upload_id, ChecksumCRC32C="AAAAAA==", ChecksumType="FULL_OBJECT"))


@question("completing an upload a second time succeeds")
def _complete_twice(trial: Trial) -> bool:
    key = trial.key()
    return not trial.refused(trial.complete(key, trial.upload(key)))


@question("unfinished uploads are listed by a prefix of their keys")
def _uploads(trial: Trial) -> bool:
    key = trial.key("below")
    upload_id = trial.upload(key)
    page = trial.client.list_multipart_uploads(Bucket=trial.bucket, Prefix=key[:-3])
    trial.client.abort_multipart_upload(Bucket=trial.bucket, Key=key, UploadId=upload_id)
    return [entry["Key"] for entry in page.get("Uploads", ())] == [key]


@question("DELETE with a stale If-Match is refused")
def _stale_delete(trial: Trial) -> bool:
    key = trial.key()
    stale = trial.put(key, b"old")["ETag"]
    trial.put(key, b"new")
    return trial.refused(lambda: trial.client.delete_object(Bucket=trial.bucket, Key=key, IfMatch=stale), 412)


@question("the keys `a` and `a/b` can both exist")
def _file_and_directory(trial: Trial) -> bool:
    key = trial.key()
    trial.put(key, b"file")
    return not trial.refused(lambda: trial.put(f"{key}/b")) and trial.get(key) == b"file"


@question("a key with `//` in it is another than with `/`")
def _double_slash(trial: Trial) -> bool:
    key = trial.key("a//b")
    return not trial.refused(lambda: trial.put(key)) and trial.keys(key[:-4]) == [key]


@question("listings are in the order of the keys' bytes (`a-` before `a/b`)")
def _order(trial: Trial) -> bool:
    above = trial.key()
    names = [f"{above}/{name}" for name in ("a-", "a/b", "ab")]
    for name in reversed(names):
        trial.put(name)
    return trial.keys(f"{above}/") == names


@question("a listing that begins after a key misses no key that is not ASCII")
def _start_after(trial: Trial) -> bool:
    above = trial.key()
    for name in ("a", "\u00e9"):
        trial.put(f"{above}/{name}")
    return trial.keys(f"{above}/", StartAfter=f"{above}/a") == [f"{above}/\u00e9"]


@question("server-side encryption AES256 is done and confirmed")
def _sse_s3(trial: Trial) -> bool:
    return bool(trial.put(trial.key(), ServerSideEncryption="AES256").get("ServerSideEncryption") == "AES256")


@question("server-side encryption aws:kms without a key id is done and confirmed")
def _sse_kms(trial: Trial) -> bool:
    return bool(trial.put(trial.key(), ServerSideEncryption="aws:kms").get("ServerSideEncryption") == "aws:kms")


@question("requests with a wrong secret key are refused")
def _secret(trial: Trial) -> bool:
    wrong = new_client(aws_access_key_id="stratalog", aws_secret_access_key="wrong")
    return trial.refused(lambda: wrong.list_objects_v2(Bucket=trial.bucket), 401, 403)


def new_client(**credentials: str) -> Any:
    """A client of the service that the environment names; single attempts."""
    retries: Any = {"mode": "standard", "total_max_attempts": 1}
    config = Config(
        s3={"addressing_style": "path"}, retries=retries, max_pool_connections=16, signature_version="s3v4",
        request_checksum_calculation="when_required", response_checksum_validation="when_required",
    )  # fmt: skip
    return boto3.session.Session().client("s3", config=config, **credentials)


def main() -> int:
    """Ask everything; the exit status tells nothing."""
    parser = argparse.ArgumentParser(description="Try out what S3 services do differently.")
    parser.add_argument("--bucket", default="stratalog")
    bucket = parser.parse_args().bucket
    trial = Trial(new_client(), bucket, f"quirks-{uuid.uuid4().hex}")
    for text, check in QUESTIONS:
        try:
            answer = "yes" if check(trial) else "no"
        except ClientError as error:
            answer = f"no ({error.response['Error'].get('Code')})"
        except BotoCoreError as error:
            answer = f"no ({type(error).__name__})"
        print(f"{answer:20}  {text}", flush=True)
    while keys := trial.keys(trial.prefix):
        for key in keys:
            trial.client.delete_object(Bucket=bucket, Key=key)
    return 0


if __name__ == "__main__":
    sys.exit(main())
