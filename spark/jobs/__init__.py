"""Programs for ``spark-submit``: the same commands, on whatever cluster it starts them."""
