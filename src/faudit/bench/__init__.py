"""Benchmarks: speed measured side by side, and the audit protocol on planted networks."""
