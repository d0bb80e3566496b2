"""Reports on what the app recorded, computed by Spark: where every message ended, outages, costs, partitions.

`python -m pipeline --help` explains the commands, docs/pipeline.md the tables and what the proof means.
"""
