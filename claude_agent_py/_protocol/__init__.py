"""The sans-IO protocol: bytes in, events out; time is an argument. Read `engine` first."""
