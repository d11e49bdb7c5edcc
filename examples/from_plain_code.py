"""Run a prompt from synchronous code: a script, or a notebook with a running event loop."""

from offline import offline

from claude_agent_py import ClientOptions, run_sync


def main() -> None:
    options = ClientOptions(system_prompt="You answer in one word.")
    result = run_sync("What is the capital of France?", options)
    print(result.text)
    print(f"{result.total_cost_usd:.4f} USD")


if __name__ == "__main__":
    with offline(["Paris."]):
        main()
