"""Measurements side by side with the official SDK. Run `python -m benchmarks`; see README.md."""
