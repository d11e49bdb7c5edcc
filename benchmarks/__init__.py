"""Benchmarks against the official SDK. Run `python -m benchmarks`; see README.md."""
