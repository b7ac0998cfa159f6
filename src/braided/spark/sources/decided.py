"""The names under which a heartbeat's offset is known in Spark's log, and holds what was decided."""

MARK = "braided"  # by which an offset of ours is known
DECIDED = "decided"
