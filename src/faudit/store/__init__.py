"""Run directories: rows, checkpoints, the index and the table export."""
