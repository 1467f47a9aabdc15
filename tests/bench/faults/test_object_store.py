"""A store of objects that misbehaves for a while."""

import random

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from bench.faults.object_store import SPOILED, FaultyBucket

pytestmark = [pytest.mark.story]


def test_a_store_misbehaves_until_it_is_mended(tmp_path):
    """Reads of its own address always pass."""
    store = FaultyBucket(tmp_path)
    try:
        settings = store.settings
        patience = Config(retries={"max_attempts": 0}, connect_timeout=5, read_timeout=5)
        client = boto3.client(
            "s3", endpoint_url=settings["stratalog.bucket.endpoint.url"], region_name="us-east-1", config=patience
        )
        client.put_object(Bucket="archive", Key="campaign/a", Body=b"a")
        dice = random.Random(0)
        outcomes = set()
        for _ in range(4 * len(SPOILED)):
            store.spoil(dice)
            try:
                client.put_object(Bucket="archive", Key="campaign/a", Body=b"a")
                outcomes.add("late")
            except (BotoCoreError, ClientError) as error:
                outcomes.add(type(error).__name__)
        assert len(outcomes) >= 2
        store.mend()
        assert client.get_object(Bucket="archive", Key="campaign/a")["Body"].read() == b"a"
        direct = boto3.client("s3", endpoint_url=store.endpoint, region_name="us-east-1")
        assert direct.get_object(Bucket="archive", Key="campaign/a")["Body"].read() == b"a"
    finally:
        store.close()
