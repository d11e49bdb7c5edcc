"""Control frames: `frames`, the CLI's `asks`, the SDK's `requests`, and the replies to both."""
