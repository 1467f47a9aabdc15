"""``spark-submit --py-files stratalog.zip verify.py --bucket s3://archive/prod``."""

import sys

from stratalog.spark.__main__ import main

if __name__ == "__main__":
    main(["verify", *sys.argv[1:]])
