"""Jobs that replace objects of an archive: compact and erase."""
