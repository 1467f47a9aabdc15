"""The partitions that this broker hosts, their roles and their disks: appends, acknowledgements, reads, compaction.

Room for the role of a follower is here, beside `leader`.
"""
