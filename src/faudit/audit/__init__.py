"""The audit: checks measure, a protocol holds the thresholds, the judge decides. It never imports the trainer."""
