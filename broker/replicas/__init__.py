"""The partitions of this broker and their disks: appends, acknowledgements, reads, compaction."""
