"""Sandbox settings, and how they merge with an existing `sandbox` block without losing restrictions."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from claude_agent_py._base.configuration import ConfigModel
from claude_agent_py.wire.base import JSONObject


class _SandboxModel(ConfigModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(alias_generator=to_camel)


class SandboxTLS(_SandboxModel):
    """The certificate authority for inspecting TLS connections."""

    ca_cert_path: str | None = None
    ca_key_path: str | None = None


class SandboxNetwork(_SandboxModel):
    """Network access of commands."""

    allowed_domains: list[str] | None = None
    denied_domains: list[str] | None = None
    strict_allowlist: bool | None = None
    allow_managed_domains_only: bool | None = None
    allow_unix_sockets: list[str] | None = None
    allow_all_unix_sockets: bool | None = None
    allow_local_binding: bool | None = None
    allow_mach_lookup: list[str] | None = None
    http_proxy_port: int | None = None
    """Port of your own proxy. Its traffic is not checked against the domain lists."""
    socks_proxy_port: int | None = None
    """Port of your own SOCKS proxy; see `http_proxy_port`."""
    tls_terminate: SandboxTLS | None = None


class SandboxFilesystem(_SandboxModel):
    """Files that commands may read and write."""

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
    """A file whose secret is hidden from commands."""

    path: str
    mask_duplicates: bool | None = None


class SandboxCredentialVariable(_Credential):
    """An environment variable whose secret is hidden from commands."""

    name: str


class SandboxAWSKeys(_SandboxModel):
    """The environment variables of a set of AWS keys."""

    access_key_id_var: str
    secret_access_key_var: str
    session_token_var: str | None = None


class SandboxSigV4(_SandboxModel):
    """How requests with AWS signatures are handled."""

    streaming: Literal["deny", "passthrough"] | None = None
    presigned: Literal["deny", "passthrough"] | None = None
    sigv4a: Literal["deny", "passthrough"] | None = None


class SandboxCredentials(_SandboxModel):
    """Secrets that are hidden from commands."""

    files: list[SandboxCredentialFile] | None = None
    env_vars: list[SandboxCredentialVariable] | None = None
    allow_plaintext_inject: bool | None = None
    aws_pairs: list[SandboxAWSKeys] | None = None
    sigv4: SandboxSigV4 | None = None


class SandboxRipgrep(_SandboxModel):
    """The ripgrep executable to use."""

    command: str
    args: list[str] | None = None


class SandboxSettings(_SandboxModel):
    """The sandbox for shell commands. Fields that are None keep the values of the CLI's settings.

    If `enabled` is true, `fail_if_unavailable` defaults to true: on a machine without a sandbox the session fails
    instead of running commands unprotected.
    """

    enabled: bool | None = None
    fail_if_unavailable: bool | None = None
    auto_allow_bash_if_sandboxed: bool | None = None
    """Whether sandboxed commands run without asking for permission."""
    allow_unsandboxed_commands: bool | None = None
    """Whether the model may request to run a command outside the sandbox."""
    excluded_commands: list[str] | None = None
    """Commands that run outside the sandbox."""
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
        """Return the `sandbox` block for a settings file."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def merged_into(self, block: Mapping[str, object]) -> JSONObject:
        """Return `block` updated with the fields of these settings.

        Restricting lists are joined. Entries of `block` that would disable a restriction of these settings are dropped.
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
"""Lists whose entries only restrict."""

REPLACED_WHOLE: Final[set[tuple[str, ...]]] = {("ripgrep",), ("network", "tlsTerminate")}
"""Objects that are replaced rather than merged, because their fields belong together."""

PROXY_PORTS: Final = ("httpProxyPort", "socksProxyPort")


def _merge(base: Mapping[str, object], over: Mapping[str, object], path: tuple[str, ...]) -> JSONObject:
    merged = dict(base)
    for name, value in over.items():
        merged[name] = _merged_value(base.get(name), value, (*path, name))
    return merged


def _merged_value(old: Any, new: Any, path: tuple[str, ...]) -> object:
    if path in RESTRICTIONS and isinstance(old, list):
        return _joined(old, new)
    if isinstance(old, Mapping) and isinstance(new, Mapping) and path not in REPLACED_WHOLE:
        return _merge(old, new, path)
    return new


def _joined(old: list[object], new: list[object]) -> list[object]:
    """Join two lists. For the same credential an entry that denies wins, otherwise the newer one."""
    by_key: dict[object, object] = {}
    for entry in [*old, *new]:
        key = (entry.get("path") or entry.get("name")) if isinstance(entry, Mapping) else entry
        kept = by_key.get(key)
        if not (isinstance(kept, Mapping) and kept.get("mode") == "deny"):
            by_key[key] = entry
    return list(by_key.values())


def _without_loopholes(block: Mapping[str, object], own: JSONObject) -> JSONObject:
    """Drop entries of `block` that would disable restrictions in `own`."""
    kept = dict(block)
    files = own.get("credentials", {}).get("files", [])
    limits_files = "filesystem" in own or any(entry["mode"] == "deny" for entry in files)
    if limits_files and "filesystem" in block:
        filesystem = _mapping(block, "filesystem")
        kept["filesystem"] = {name: value for name, value in filesystem.items() if (name, value) != ("disabled", True)}
    network = own.get("network", {})
    limits_network = network.keys() & {"allowedDomains", "deniedDomains"} or network.get("strictAllowlist")
    if limits_network and "network" in block:
        kept["network"] = {name: value for name, value in _mapping(block, "network").items() if name not in PROXY_PORTS}
    return kept


def _mapping(block: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = block.get(name)
    return value if isinstance(value, Mapping) else {}
