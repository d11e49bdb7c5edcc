"""What a session says about itself follows what changes."""

import anyio
import msgspec
import pytest

from claude_agent_py import Client
from claude_agent_py.control import AppliedSettings, GetHooksListingReply, GetSettingsReply
from claude_agent_py.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


async def test_the_commands_are_those_of_now_and_every_field_of_the_settings_has_a_model() -> None:
    def names(model: type[msgspec.Struct]) -> set[str]:
        return {each.encode_name for each in msgspec.structs.fields(model)}

    async with ScriptedModel() as model:
        options = model.options()
        skill = model.sandbox.config_dir / "skills/late/SKILL.md"
        async with Client(options) as client:
            settings = await client.settings.get()
            hooks = await client.settings.hooks()

            before = client.info
            assert "late" not in [command.name for command in client.info.commands]
            skill.parent.mkdir(parents=True)
            skill.write_text("---\nname: late\ndescription: Comes late\n---\nCome late.\n")
            messages = client.messages()
            await client.settings.reload_skills()
            with anyio.fail_after(60):
                async for message in messages:
                    if "late" in str(getattr(message, "commands", "")):
                        break
            assert "late" in [command.name for command in client.info.commands]
    assert client.info.claude_code_version == before.claude_code_version
    assert settings.applied is not None
    assert settings.applied.ultracode is False
    assert set(settings.raw) <= names(GetSettingsReply)
    assert set(settings.raw["applied"]) <= names(AppliedSettings)
    assert set(hooks.raw) <= names(GetHooksListingReply)
