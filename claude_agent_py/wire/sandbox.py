"""The sandbox that the CLI runs shell commands in, as its settings describe it.

Owns the shape and the merge with a `sandbox` block that the settings have already. A restriction of one side is never
lost to the other. Knows nothing of settings files.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from claude_agent_py.configuration import ConfigModel
from claude_agent_py.wire.base import JSONObject


class _SandboxModel(ConfigModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(alias_generator=to_camel)


class SandboxTLS(_SandboxModel):
    """The authority with which the sandbox looks into TLS connections."""

    ca_cert_path: str | None = None
    ca_key_path: str | None = None


class SandboxNetwork(_SandboxModel):
    """What commands may reach."""

    allowed_domains: list[str] | None = None
    denied_domains: list[str] | None = None
    strict_allowlist: bool | None = None
    allow_managed_domains_only: bool | None = None
    allow_unix_sockets: list[str] | None = None
    allow_all_unix_sockets: bool | None = None
    allow_local_binding: bool | None = None
    allow_mach_lookup: list[str] | None = None
    http_proxy_port: int | None = None
    """A proxy of your own. What goes through it is not checked against the domain lists."""
    socks_proxy_port: int | None = None
    """See `http_proxy_port`."""
    tls_terminate: SandboxTLS | None = None


class SandboxFilesystem(_SandboxModel):
    """What commands may read and write."""

    allow_write: list[str] | None = None
    deny_write: list[str] | None = None
    deny_read: list[str] | None = None
    allow_read: list[str] | None = None
    allow_managed_read_paths_only: bool | None = None
    disabled: bool | None = None


class _Credential(_SandboxModel):
    mode: Literal["deny", "mask"] = "deny"
    extract: str | None = None
    on_extract_no_match: Literal["deny", "error", "warn"] | None = None
    decode: Literal["jwt"] | None = None
    mask_claims: list[str] | None = None
    inject_hosts: list[str] | None = None


class SandboxCredentialFile(_Credential):
    """A file with a secret that commands must not see."""

    path: str
    mask_duplicates: bool | None = None


class SandboxCredentialVariable(_Credential):
    """An environment variable with a secret that commands must not see."""

    name: str


class SandboxAWSKeys(_SandboxModel):
    """Environment variables that hold one set of AWS keys."""

    access_key_id_var: str
    secret_access_key_var: str
    session_token_var: str | None = None


class SandboxSigV4(_SandboxModel):
    """What happens to requests signed the AWS way."""

    streaming: Literal["deny", "passthrough"] | None = None
    presigned: Literal["deny", "passthrough"] | None = None
    sigv4a: Literal["deny", "passthrough"] | None = None


class SandboxCredentials(_SandboxModel):
    """Secrets that commands must not see."""

    files: list[SandboxCredentialFile] | None = None
    env_vars: list[SandboxCredentialVariable] | None = None
    allow_plaintext_inject: bool | None = None
    aws_pairs: list[SandboxAWSKeys] | None = None
    sigv4: SandboxSigV4 | None = None


class SandboxRipgrep(_SandboxModel):
    """The ripgrep to search with."""

    command: str
    args: list[str] | None = None


class SandboxSettings(_SandboxModel):
    """The sandbox for shell commands. What is None is left to the CLI's own settings.

    Where `enabled` is true and `fail_if_unavailable` is left open, the latter is true: the session fails rather than
    run commands without a sandbox on a machine that has none.
    """

    enabled: bool | None = None
    fail_if_unavailable: bool | None = None
    auto_allow_bash_if_sandboxed: bool | None = None
    """Do not ask for sandboxed commands."""
    allow_unsandboxed_commands: bool | None = None
    """Whether the model may ask to run a command outside."""
    excluded_commands: list[str] | None = None
    """Commands that run outside."""
    network: SandboxNetwork | None = None
    filesystem: SandboxFilesystem | None = None
    credentials: SandboxCredentials | None = None
    ignore_violations: dict[str, list[str]] | None = None
    enable_weaker_nested_sandbox: bool | None = None
    allow_nested_user_namespaces: bool | None = None
    enable_weaker_network_isolation: bool | None = None
    allow_apple_events: bool | None = None
    ripgrep: SandboxRipgrep | None = None
    bwrap_path: str | None = None
    socat_path: str | None = None

    def to_wire(self) -> JSONObject:
        """Give the `sandbox` block of a settings file."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def merged_into(self, block: Mapping[str, Any]) -> JSONObject:
        """Give the block that has this value's fields, and those of `block` that it leaves open.

        Lists that restrict are joined. What would switch a restriction of this value off is dropped from `block`.
        """
        own = self.to_wire()
        merged = _merge(_without_loopholes(block, own), own, ())
        if own.get("enabled"):
            merged.setdefault("failIfUnavailable", True)
        return merged


RESTRICTIONS: Final = {
    ("filesystem", "denyRead"),
    ("filesystem", "denyWrite"),
    ("network", "deniedDomains"),
    ("credentials", "files"),
    ("credentials", "envVars"),
}
"""Lists that only ever take away."""

REPLACED_WHOLE: Final[set[tuple[str, ...]]] = {("ripgrep",), ("network", "tlsTerminate")}
"""Objects whose parts mean nothing alone."""

PROXY_PORTS: Final = ("httpProxyPort", "socksProxyPort")


def _merge(base: Mapping[str, Any], over: Mapping[str, Any], path: tuple[str, ...]) -> JSONObject:
    merged = dict(base)
    for name, value in over.items():
        merged[name] = _merged_value(base.get(name), value, (*path, name))
    return merged


def _merged_value(old: Any, new: Any, path: tuple[str, ...]) -> Any:
    if path in RESTRICTIONS and isinstance(old, list):
        return _joined(old, new)
    if isinstance(old, Mapping) and isinstance(new, Mapping) and path not in REPLACED_WHOLE:
        return _merge(old, new, path)
    return new


def _joined(old: list[Any], new: list[Any]) -> list[Any]:
    """Join two lists; of two entries for one credential, one that denies wins, else the newer one."""
    by_key: dict[Any, Any] = {}
    for entry in [*old, *new]:
        key = (entry.get("path") or entry.get("name")) if isinstance(entry, Mapping) else entry
        kept = by_key.get(key)
        if not (isinstance(kept, Mapping) and kept.get("mode") == "deny"):
            by_key[key] = entry
    return list(by_key.values())


def _without_loopholes(block: Mapping[str, Any], own: JSONObject) -> JSONObject:
    """Drop from `block` what would make restrictions in `own` do nothing."""
    kept = dict(block)
    files = own.get("credentials", {}).get("files", [])
    if "filesystem" in own or any(entry["mode"] == "deny" for entry in files):
        kept["filesystem"] = {k: v for k, v in _mapping(kept, "filesystem").items() if (k, v) != ("disabled", True)}
    network = own.get("network", {})
    if network.keys() & {"allowedDomains", "deniedDomains"} or network.get("strictAllowlist"):
        kept["network"] = {k: v for k, v in _mapping(kept, "network").items() if k not in PROXY_PORTS}
    return {name: value for name, value in kept.items() if value != {} or name in block}


def _mapping(block: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = block.get(name)
    return value if isinstance(value, Mapping) else {}
