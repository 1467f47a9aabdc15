"""Tell the story; exit 0 only if every comparison held."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from demo.servers import s3_server
from demo.story import Story


def main() -> None:
    """``python -m demo [--bucket file|s3] [--data DIR]``."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--bucket", choices=["file", "s3"], default="file")
    parser.add_argument("--data", type=Path, default=Path("demo-data"))
    arguments = parser.parse_args()
    data = arguments.data.resolve()
    if data.exists():
        shutil.rmtree(data)
    data.mkdir(parents=True)
    if arguments.bucket == "file":
        held = Story(data, f"file://{data}/bucket").tell()
    else:
        with s3_server(data) as endpoint:
            os.environ["AWS_ENDPOINT_URL_S3"] = endpoint
            os.environ.setdefault("AWS_ACCESS_KEY_ID", "stratalog")
            os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "stratalog")
            os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
            held = Story(data, "s3://stratalog-demo/archive").tell()
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
