"""What users configure and the CLI reads: MCP servers, the sandbox, and closed sets of words."""
