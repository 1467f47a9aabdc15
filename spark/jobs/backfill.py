"""``spark-submit --py-files stratalog.zip backfill.py --bucket s3://archive/prod --topic orders --to s3://lake/raw``."""

import sys

from stratalog.cli.spark.main import main

if __name__ == "__main__":
    main(["backfill", *sys.argv[1:]])
