"""``spark-submit --py-files stratalog.zip erase.py --bucket s3://archive/prod --topic customers --key c-4711``."""

import sys

from stratalog.cli.spark.main import main

if __name__ == "__main__":
    main(["erase", *sys.argv[1:]])
