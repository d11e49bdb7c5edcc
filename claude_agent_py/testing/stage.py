"""`Stage`: the stand-ins for the model or the CLI in one test. The fixtures of `pytest_plugin` are its methods."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, TypeAlias

from claude_agent_py import RunResult
from claude_agent_py.client import Client
from claude_agent_py.options import ClientOptions
from claude_agent_py.testing.fake_cli import FakeCLI
from claude_agent_py.testing.script import AnyScript
from claude_agent_py.testing.scripted_model import ScriptedModel

NO_PEER = (
    "the test has no stand-in for the model: call scripted_model([...]) or fake_cli(...) first, or mark the test with "
    "@pytest.mark.cassette"
)


MakeScriptedModel: TypeAlias = type[ScriptedModel]
"""The fixture `scripted_model`: start a `ScriptedModel` from the same arguments. It is closed after the test."""

MakeFakeCLI: TypeAlias = Callable[..., FakeCLI]
"""The fixture `fake_cli`: make a `FakeCLI` from the same arguments."""

MakeOptions: TypeAlias = Callable[..., "ClientOptions"]
"""The fixture `claude_options`: options for the stand-in of the test. Takes the keywords of `ClientOptions`."""

MakeClient: TypeAlias = Callable[..., "Client"]
"""The fixture `claude_client`: a client of the stand-in, for `async with`. Takes the keywords of `ClientOptions`."""

RunSnapshot: TypeAlias = Callable[["RunResult"], None]
"""The fixture `run_snapshot`: compare a run with its snapshot."""


class Stage:
    """The stand-ins of one test. Options and clients use the last one."""

    def __init__(self, make_folder: Callable[[], Path]) -> None:
        self._make_folder = make_folder
        self._open = ExitStack()
        self._peer: ScriptedModel | FakeCLI | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.close()

    def use(self, peer: Any) -> Any:
        """Enter a stand-in until the end of the test, and use it for options and clients."""
        self._peer = self._open.enter_context(peer)
        return self._peer

    def scripted_model(self, main: AnyScript = (), **more: Any) -> ScriptedModel:
        """Start a scripted model."""
        model: ScriptedModel = self.use(ScriptedModel(main, **more))
        return model

    def fake_cli(self, *script: Any, **more: Any) -> FakeCLI:
        """Create a fake CLI."""
        self._peer = FakeCLI(*script, **more)
        return self._peer

    def options(self, **overrides: object) -> "ClientOptions":
        """Return options for the stand-in. A `FakeCLI` is installed as a program."""
        if self._peer is None:
            raise RuntimeError(NO_PEER)
        if isinstance(self._peer, FakeCLI):
            return ClientOptions(**{"cli_path": self._peer.install(self._make_folder()), **overrides})
        return self._peer.options(**overrides)

    def client(self, **overrides: Any) -> "Client":
        """Return a client of the stand-in. A `FakeCLI` runs in memory."""
        if isinstance(self._peer, FakeCLI):
            return Client(ClientOptions(**overrides), transport=self._peer.transport())
        return Client(self.options(**overrides))
