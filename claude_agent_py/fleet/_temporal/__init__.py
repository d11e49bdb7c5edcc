"""The engine for many machines: each session is a workflow of Temporal, and each call of `run_turn` an activity."""
