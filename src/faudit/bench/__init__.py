"""Benchmarks: speed side by side, and the protocol against planted networks."""
