"""Ask for an answer in sections, show them while they arrive, and have the model correct mistakes."""

import anyio
from offline import offline

from claude_agent_py import Client, ClientOptions, TextFormat, XMLFormat
from claude_agent_py.formatting import ParsedText, SectionEvent, SectionGrew, SectionSpec, SectionStarted
from claude_agent_py.testing import Reply


def review_format() -> TextFormat:
    text_format = XMLFormat(wrapper="review")
    text_format.register_section("summary", "What the change does, in a sentence.")
    finding = SectionSpec(name="finding", description="One problem.", repeatable=True, required=False)
    text_format.register_section(SectionSpec(name="findings", description="The problems.", sections=[finding]))
    text_format.register_section("verdict", "approve or reject", example="approve")
    return text_format


def show(events: list[SectionEvent]) -> None:
    for event in events:
        match event:
            case SectionStarted():
                print(f"\n[{'/'.join(event.path)}] ", end="")
            case SectionGrew():
                print(event.text, end="", flush=True)


async def ask(client: Client, text_format: TextFormat, prompt: str) -> ParsedText:
    run = client.query(prompt)
    stream = text_format.stream(strip=True)
    async for text in run.text_stream():
        show(stream.feed(text))
    result = await run
    show(stream.finish(is_truncated=result.stop_reason == "max_tokens"))
    return stream.parsed


async def main() -> None:
    text_format = review_format()
    async with Client(ClientOptions(include_partial_messages=True)) as client:
        parsed = await ask(client, text_format, f"Review the change.\n\n{text_format.describe()}")
        if parsed.problems:
            print("\n\nproblems:", *parsed.problems, sep="\n- ")
            parsed = await ask(client, text_format, text_format.repair_prompt(parsed))
    print("\n\nverdict:", parsed["verdict"])


if __name__ == "__main__":
    first = (
        "<review>\n<summary>It logs more.\n<findings><finding>if a < b & c: the secret is logged</finding></findings>"
        "\n<verdit>reject</verdit>\n</review>"
    )
    second = review_format().format_sections(
        [
            ("summary", "It logs more."),
            ("findings", {"finding": ["if a < b & c: the secret is logged"]}),
            ("verdict", "reject"),
        ]
    )
    with offline([Reply(first, chunk_chars=5), Reply(second, chunk_chars=5)]):
        anyio.run(main)
