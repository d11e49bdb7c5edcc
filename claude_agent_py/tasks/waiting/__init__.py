"""Waiting for tasks: iterating over them as they end, and inferring ends that were never reported."""
