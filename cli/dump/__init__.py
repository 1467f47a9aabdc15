"""``stratalog dump``: files of a data directory and objects of a bucket as rows."""
