"""``spark-submit --py-files stratalog.zip verify.py --bucket s3://archive/prod``."""

import sys

from stratalog.cli.spark.main import main

if __name__ == "__main__":
    main(["verify", *sys.argv[1:]])
