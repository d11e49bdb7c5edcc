"""The `completion` command: print a script that completes commands and options in bash, zsh or fish."""

import argparse
from collections.abc import Iterator
from typing import Final, NamedTuple

SHELLS: Final = ("bash", "zsh", "fish")
PROGRAM: Final = "claude-agent-py"

BASH: Final = """\
_claude_agent_py() {{
    local words
    case "${{COMP_WORDS[1]:-}}" in
{cases}
        *) words="{commands}" ;;
    esac
    [[ $COMP_CWORD -eq 1 ]] && words="{commands} --help --version"
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _claude_agent_py {program}
"""
ZSH: Final = "autoload -U +X bashcompinit && bashcompinit\n"


class Words(NamedTuple):
    """A command and what can follow it."""

    name: str
    help: str
    following: list[str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument: the shell."""
    parser.add_argument("shell", choices=SHELLS)
    parser.epilog = f'for example in ~/.bashrc: eval "$({PROGRAM} completion bash)"'


def execute(arguments: argparse.Namespace) -> int:
    """Print the script and return the exit code."""
    from claude_agent_py.cli.main import COMMANDS, make_parser

    commands = list(_words(make_parser(list(COMMANDS))))
    print(_fish(commands) if arguments.shell == "fish" else _bash(commands, is_zsh=arguments.shell == "zsh"), end="")
    return 0


def _words(parser: argparse.ArgumentParser) -> Iterator[Words]:
    """Yield every command of a parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, sub in action.choices.items():
                options = [option for one in sub._actions for option in one.option_strings if option.startswith("--")]
                inner = list(_words(sub))
                options += [option for words in inner for option in words.following if option.startswith("--")]
                following = [words.name for words in inner] + list(dict.fromkeys(options))
                choices = [
                    str(choice) for one in sub._actions if not one.option_strings for choice in one.choices or ()
                ]
                yield Words(name, helps.get(name, ""), list(dict.fromkeys(choices + following)))


def _bash(commands: list[Words], *, is_zsh: bool) -> str:
    cases = "\n".join(f'        {words.name}) words="{" ".join(words.following)}" ;;' for words in commands)
    script = BASH.format(cases=cases, commands=" ".join(words.name for words in commands), program=PROGRAM)
    return ZSH + script if is_zsh else script


def _fish(commands: list[Words]) -> str:
    lines = [f"complete -c {PROGRAM} -e"]
    for words in commands:
        described = words.help.replace("\\", "\\\\").replace("'", "\\'")
        lines.append(f"complete -c {PROGRAM} -n __fish_use_subcommand -f -a {words.name} -d '{described}'")
        seen = f"-n '__fish_seen_subcommand_from {words.name}'"
        each = (f"-l {word[2:]}" if word.startswith("--") else f"-a {word}" for word in words.following)
        lines += [f"complete -c {PROGRAM} {seen} {one}" for one in each]
    return "\n".join(lines) + "\n"
