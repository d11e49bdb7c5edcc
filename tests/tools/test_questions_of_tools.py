"""Tools in this process that ask a person, with the real CLI."""

import enum
import importlib
import importlib.metadata
import importlib.util
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, TypedDict

import anyio
import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator
from typing_extensions import TypeAliasType

from claude_agent_py import Client
from claude_agent_py.errors import OptionsError
from claude_agent_py.permissions import Accept, Decline, ElicitationRequest
from claude_agent_py.testing import Reply, ScriptedModel, tool_use
from claude_agent_py.tools import ToolContext

pytestmark = [pytest.mark.anyio]


class Order(BaseModel):
    size: Literal["S", "L"]
    count: int = Field(1, ge=1, description="How many.")
    note: str | None = None


class Bought(BaseModel):
    """A form without choices, which version 1 of the package does not know."""

    size: str
    count: int = 1
    note: str | None = None


async def order(context: ToolContext) -> str:
    """Order something."""
    given = await context.elicit("What size?", Order)
    return "nothing" if given is None else f"{given.count} of {given.size}"


async def pay(context: ToolContext) -> str:
    """Pay it."""
    return "paid" if await context.elicit_url("Pay here", "https://pay.example.com") else "not paid"


def order_from_package() -> Any:
    """Return a server of the `mcp` package with a tool that asks."""
    is_second = not importlib.metadata.version("mcp").startswith("1.")
    module, name = ("mcp.server.mcpserver", "MCPServer") if is_second else ("mcp.server.fastmcp", "FastMCP")
    loaded = importlib.import_module(module)
    server: Any = getattr(loaded, name)("shop")

    async def buy(ctx: Any) -> str:
        found = await ctx.elicit("What size?", Bought)
        return f"{found.action} {getattr(found, 'data', None)!r}"

    buy.__annotations__["ctx"] = loaded.Context
    server.tool()(buy)
    return server


@asynccontextmanager
async def session(*calls: str, **options: Any) -> AsyncIterator[Client]:
    script = [Reply([tool_use(name, {})]) for name in calls]
    servers = {"shop": order_from_package()} if any("shop" in name for name in calls) else {}
    async with ScriptedModel([*script, Reply("Done.")]) as model:
        given = model.options(
            custom_tools=[order, pay], mcp_servers=servers, permission_mode="bypassPermissions", **options
        )
        async with Client(given) as client:
            yield client


def results(result: Any) -> list[str]:
    return [call.result.text for call in result.tool_calls]


@pytest.mark.real_cli
async def test_a_handler_answers_tools_of_every_server_in_this_process() -> None:
    asked: list[Any] = []

    def answer(request: Any, context: Any) -> Any:
        asked.append((request.server_name, request.message, request.mode, list(request.form.fields), request.url))
        return Accept({"size": "L", "count": 2}) if request.mode == "form" else Accept()

    calls = ["mcp__tools__order", "mcp__tools__pay"]
    if importlib.util.find_spec("mcp") is not None:
        calls.append("mcp__shop__buy")
    async with session(*calls, on_elicitation=answer) as client:
        facts = client.journal()
        found = results(await client.query("Go on"))
        told: list[tuple[str, str]] = []
        with anyio.fail_after(60):
            while len(told) < 2 * len(calls):
                fact = await anext(facts)
                if fact.fact in ("request_opened", "request_settled") and fact.kind == "elicitation":
                    told.append((fact.fact, fact.name))
    assert found[:2] == ["2 of L", "paid"]
    fields = ["size", "count", "note"]
    assert asked[:2] == [
        ("tools", "What size?", "form", fields, None),
        ("tools", "Pay here", "url", [], "https://pay.example.com"),
    ]
    if len(calls) > 2:
        assert asked[2] == ("shop", "What size?", "form", fields, None)
        assert "accept Bought(size='L', count=2, note=None)" in found[2]
    assert told[:2] == [("request_opened", "tools"), ("request_settled", "tools")]


@pytest.mark.real_cli
async def test_a_person_answers_in_the_inbox_or_refuses() -> None:
    async with session("mcp__tools__order", "mcp__tools__order", interactions=True) as client:
        run, calls = client.query("Go on"), list[tuple[str, str]]()
        arrivals = client.interactions.arrivals()
        for reply in (Accept({"size": "S"}), Decline()):
            interaction = await anext(arrivals)
            assert isinstance(interaction.subject, ElicitationRequest)
            assert interaction.subject.message == "What size?"
            assert interaction.subject.call is not None
            calls.append((interaction.subject.call.name, interaction.subject.call.id))
            with pytest.raises(ValueError, match="size"):
                interaction.resolve(Accept({"size": "XL"}))
            assert await interaction.answer(reply)
        result = await run
        assert sorted(results(result)) == ["1 of S", "nothing"]
        assert sorted(calls) == sorted((each.name, each.id) for each in result.tool_calls)


@pytest.mark.long
@pytest.mark.real_cli
async def test_without_anybody_the_tool_gets_nothing() -> None:
    async with session("mcp__tools__order") as client:
        assert results(await client.query("Go on")) == ["nothing"]


@pytest.mark.long
@pytest.mark.real_cli
async def test_an_interrupt_withdraws_the_question() -> None:
    async with session("mcp__tools__order", interactions=True) as client:
        run = client.query("Go on")
        interaction = await anext(client.interactions.arrivals())
        await client.interrupt()
        result = await run.result()
        assert result.was_interrupted
        with anyio.fail_after(30):
            while not interaction.done:
                await anyio.sleep(0.01)
        assert list(client.interactions) == []


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Choices:
    colour: Colour
    sizes: list[Literal["S", "L"]]
    is_gift: bool = False


class Consent(BaseModel):
    answer: Literal["yes"]


class Empty(TypedDict):
    pass


class Deep(BaseModel):
    order: Order


class Recursive(BaseModel):
    name: str
    parent: "Recursive | None" = None


Named: Any = TypeAliasType("Named", Consent)


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def check(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    colour: Colour
    day: date


class Level(BaseModel):
    levels: list[Literal[1, 2]]


class Person(ToolContext, frozen=True, kw_only=True):
    """The context of a call, with somebody who answers."""

    answer: dict[str, Any]

    async def _ask(self, message: str, **fields: Any) -> dict[str, Any]:
        return {"action": "accept", "content": self.answer}


async def test_a_form_gives_a_value_of_its_type() -> None:
    person = Person(request_id="r1", answer={"colour": "blue", "sizes": ["S"]})
    assert await person.elicit("Which?", Choices) == Choices(Colour.BLUE, ["S"])
    person = Person(request_id="r1", answer={"colour": "blue", "day": "2026-01-31"})
    assert await person.elicit("Which?", Strict) == Strict(colour=Colour.BLUE, day=date(2026, 1, 31))
    assert await Person(request_id="r1", answer={"answer": "yes"}).elicit("Yes?", Consent) == Consent(answer="yes")
    assert await Person(request_id="r1", answer={"answer": "yes"}).elicit("Yes?", Named) == Consent(answer="yes")
    with pytest.raises(ValueError, match="number: Value error, must be even"):
        await Person(request_id="r1", answer={"number": 3}).elicit("Which?", Even)


@pytest.mark.parametrize("form", [Empty, Deep, Recursive, Level, int, object, Callable[[], int], ScriptedModel])
async def test_a_type_that_is_no_flat_form_is_an_error(form: Any) -> None:
    with pytest.raises(OptionsError, match="form"):
        await ToolContext(request_id="r1").elicit("Which?", form)


async def test_without_a_session_nobody_answers() -> None:
    context = ToolContext(request_id="r1")
    assert await context.elicit("Which?", Order) is None
    assert not await context.elicit_url("Where?", "https://example.com")
