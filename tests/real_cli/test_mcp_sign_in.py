"""Signing in to an MCP server from the host, on the real CLI."""

from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import anyio
import pytest
from oauth_mcp_server import TOKEN, oauth_server

from claude_agent_py import Client, MCPHTTPServer
from claude_agent_py.errors import ControlRejectedError
from claude_agent_py.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


async def state_of(client: Client, state: str) -> None:
    """Wait until the only server has this state."""
    while [server.status for server in await client.mcp.status()] != [state]:
        await anyio.sleep(0.05)


async def test_a_user_signs_in_and_out_and_in_again_with_the_browser_of_this_machine() -> None:
    with oauth_server() as server, anyio.fail_after(240):
        async with ScriptedModel() as model:
            servers = {"guarded": MCPHTTPServer(url=f"{server.url}/mcp")}
            async with Client(model.options(mcp_servers=servers)) as client:
                await state_of(client, "needs-auth")
                begun = await client.mcp.authenticate("guarded", timeout=60)
                assert begun.requires_user_action
                assert begun.callback_expected
                assert begun.redirect_scheme == "localhost"
                assert begun.auth_url is not None
                assert begun.auth_url.startswith(f"{server.url}/authorize?")
                asked = parse_qs(urlsplit(begun.auth_url).query)
                assert asked["state"] == [begun.state]
                back = asked["redirect_uri"][0]
                assert urlsplit(back).port == begun.callback_port
                with pytest.raises(ControlRejectedError, match="different sign-in attempt"):
                    await client.mcp.submit_oauth_callback("guarded", f"{back}?code=stolen&state=other")
                await client.mcp.submit_oauth_callback("guarded", f"{back}?code=abc&state={begun.state}", timeout=60)
                assert server.codes == ["abc"]
                await client.mcp.reconnect("guarded")
                await state_of(client, "connected")
                await client.mcp.clear_auth("guarded", timeout=60)
                assert TOKEN in server.revoked
                await state_of(client, "needs-auth")

                begun = await client.mcp.authenticate("guarded", timeout=60)
                url = f"http://127.0.0.1:{begun.callback_port}/callback?code=xyz&state={begun.state}"
                with await anyio.to_thread.run_sync(urlopen, url) as page:  # the browser
                    assert page.status == 200
                await state_of(client, "connected")
                assert server.codes == ["abc", "xyz"]
