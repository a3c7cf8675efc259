"""The report: one self-contained page about the runs of a store, and its live version. Nothing here imports torch."""
