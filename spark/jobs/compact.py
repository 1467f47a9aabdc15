"""``spark-submit --py-files stratalog.zip compact.py --bucket s3://archive/prod --topic balances``."""

import sys

from stratalog.spark.__main__ import main

if __name__ == "__main__":
    main(["compact", *sys.argv[1:]])
