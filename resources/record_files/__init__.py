"""Reads record files (CSV, TSV, JSONL, JSON, Parquet, XLSX; plain, gzipped or zstd-compressed) in batches of text.

`reader.read_batches` is the way in; the other modules are one a format.
"""
