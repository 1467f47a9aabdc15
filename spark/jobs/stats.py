"""``spark-submit --py-files stratalog.zip stats.py --bucket s3://archive/prod --topic orders``."""

import sys

from stratalog.cli.spark.main import main

if __name__ == "__main__":
    main(["stats", *sys.argv[1:]])
