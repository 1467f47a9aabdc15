"""``spark-submit --py-files stratalog.zip compact.py --bucket s3://archive/prod --topic balances``."""

import sys

from stratalog.cli.spark.main import main

if __name__ == "__main__":
    main(["compact", *sys.argv[1:]])
