"""The sandbox: what is restricted on either side stays restricted."""

from typing import Any

import pytest

from claude_agent_py.errors import OptionsError
from claude_agent_py.options import SandboxSettings


def sandbox(**fields: Any) -> SandboxSettings:
    return SandboxSettings.model_validate(fields)


def test_only_set_fields_are_sent() -> None:
    told = sandbox(enabled=True, network={"allowed_domains": ["a"], "http_proxy_port": 3}, bwrap_path="/b").to_wire()
    assert told == {"enabled": True, "network": {"allowedDomains": ["a"], "httpProxyPort": 3}, "bwrapPath": "/b"}


def test_the_names_of_the_wire_are_taken() -> None:
    secret = {"path": "~/.ssh", "mode": "deny"}
    block = {
        "failIfUnavailable": False,
        "credentials": {"files": [secret], "envVars": [{"name": "K", "mode": "mask"}], "awsPairs": []},
        "network": {"tlsTerminate": {"caCertPath": "c", "caKeyPath": "k"}},
        "ripgrep": {"command": "rg"},
    }
    assert sandbox(**block).to_wire() == block


@pytest.mark.parametrize(
    ("own", "block", "merged"),
    [
        ({"enabled": True}, {}, {"enabled": True, "failIfUnavailable": True}),
        ({"enabled": True}, {"failIfUnavailable": False}, {"enabled": True, "failIfUnavailable": False}),
        ({"enabled": False}, {"enabled": True}, {"enabled": False}),
        (
            {"network": {"deniedDomains": ["a"]}},
            {"network": {"deniedDomains": ["b", "a"], "allowLocalBinding": True}},
            {"network": {"deniedDomains": ["b", "a"], "allowLocalBinding": True}},
        ),
        (
            {"network": {"allowedDomains": ["a"]}},
            {"network": {"allowedDomains": ["b"], "httpProxyPort": 1, "socksProxyPort": 2}},
            {"network": {"allowedDomains": ["a"]}},
        ),
        (
            {"network": {"strictAllowlist": True, "httpProxyPort": 9}},
            {"network": {"httpProxyPort": 1}},
            {"network": {"strictAllowlist": True, "httpProxyPort": 9}},
        ),
        (
            {"filesystem": {"denyRead": ["x"]}},
            {"filesystem": {"disabled": True, "denyRead": ["y"]}},
            {"filesystem": {"denyRead": ["y", "x"]}},
        ),
        (
            {"credentials": {"files": [{"path": "p", "mode": "mask"}, {"path": "q", "mode": "deny"}]}},
            {"credentials": {"files": [{"path": "p", "mode": "deny"}]}, "filesystem": {"disabled": True}},
            {
                "credentials": {"files": [{"path": "p", "mode": "deny"}, {"path": "q", "mode": "deny"}]},
                "filesystem": {},
            },
        ),
        (
            {"ripgrep": {"command": "rg"}},
            {"ripgrep": {"command": "x", "args": ["-a"]}, "new": 1},
            {"ripgrep": {"command": "rg"}, "new": 1},
        ),
    ],
)
def test_the_sandbox_is_merged_into_the_settings(own: Any, block: Any, merged: Any) -> None:
    assert sandbox(**own).merged_into(block) == merged


def test_a_misspelled_restriction_is_refused() -> None:
    with pytest.raises(
        OptionsError, match=r"SandboxSettings.filesystem: deny_reads is unknown; did you mean 'deny_read'"
    ):
        SandboxSettings.model_validate({"filesystem": {"deny_reads": ["x"]}})
