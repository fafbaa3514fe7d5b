"""Benchmarks: each prints a row of a table and adds an object to `benchmarks/results/latest.json`."""
