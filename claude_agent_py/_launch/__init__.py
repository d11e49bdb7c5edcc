"""Finding and installing the `claude` program, and building its command line, environment and settings."""
