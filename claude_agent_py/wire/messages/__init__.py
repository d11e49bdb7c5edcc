"""Messages of the conversation and what they consist of. `conversation` has the prompts, answers and results."""
