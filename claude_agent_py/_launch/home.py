"""Checking the private home and the login of a session."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from claude_agent_py._errors import OptionsError
from claude_agent_py._launch.launch_plan import CONFIG
from claude_agent_py._launch.locate import home as home_of
from claude_agent_py.options.client_options import ClientOptions

LOGIN_FILE: Final = ".credentials.json"


def check_home(options: ClientOptions, environ: Mapping[str, str], cwd: Path | None) -> None:
    """Refuse a private home that would not keep the user's configuration out, and a login that is missing.

    The CLI looks for a project's `.claude` in `cwd` and all directories above it (2.1.328), and ends that search in its
    home, which is another one now. Without project settings it does not look.

    Raises:
        OptionsError: The CLI would treat `.claude` in the user's home as a project's, or there is no login.
    """
    if options.home is None:
        return
    user_home = home_of(environ).resolve()
    place = (cwd or Path.cwd()).resolve()
    is_project_read = {"project", "local"} & set(options.setting_sources or ())
    if is_project_read and place.is_relative_to(user_home) and (user_home / CONFIG).exists():
        raise OptionsError(
            f"cannot have project or local settings in {place}: the CLI would also read {user_home / CONFIG}, which "
            "is above it; work in a directory outside of your home, or leave these sources out",
            option="setting_sources",
        )
    # On macOS the login is in the Keychain, under a name that depends on the folder.
    if options.login is not None and sys.platform != "darwin" and not Path(options.login, LOGIN_FILE).is_file():
        raise OptionsError(f"there is no {LOGIN_FILE} in {options.login}", option="login")
