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
    """A command and its completions."""

    name: str
    help: str
    completions: list[str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument: the shell."""
    parser.add_argument("shell", choices=SHELLS)
    parser.epilog = f'for example, in ~/.bashrc: eval "$({PROGRAM} completion bash)"'


def execute(arguments: argparse.Namespace) -> int:
    """Print the script and return the exit code."""
    from claude_agent_py.cli.program import COMMANDS, make_parser

    commands = list(_list_commands(make_parser(list(COMMANDS))))
    if arguments.shell == "fish":
        print(_format_fish(commands), end="")
    else:
        print(_format_bash(commands, is_zsh=arguments.shell == "zsh"), end="")
    return 0


def _list_commands(parser: argparse.ArgumentParser) -> Iterator[Words]:
    """Yield the commands of a parser. argparse has no public way to list them."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, sub in action.choices.items():
                yield Words(name, helps.get(name, ""), _list_completions(sub))


def _list_completions(parser: argparse.ArgumentParser) -> list[str]:
    """Return the choices, subcommands and options of a command, including the options of its subcommands."""
    subcommands = list(_list_commands(parser))
    completions = [
        str(choice) for action in parser._actions if not action.option_strings for choice in action.choices or ()
    ]
    completions += [command.name for command in subcommands]
    completions += [option for action in parser._actions for option in action.option_strings if option.startswith("--")]
    completions += [word for command in subcommands for word in command.completions if word.startswith("--")]
    return list(dict.fromkeys(completions))


def _format_bash(commands: list[Words], *, is_zsh: bool) -> str:
    cases = "\n".join(f'        {words.name}) words="{" ".join(words.completions)}" ;;' for words in commands)
    script = BASH.format(cases=cases, commands=" ".join(words.name for words in commands), program=PROGRAM)
    return ZSH + script if is_zsh else script


def _format_fish(commands: list[Words]) -> str:
    lines = [f"complete -c {PROGRAM} -e"]
    for words in commands:
        description = words.help.replace("\\", "\\\\").replace("'", "\\'")
        lines.append(f"complete -c {PROGRAM} -n __fish_use_subcommand -f -a {words.name} -d '{description}'")
        condition = f"-n '__fish_seen_subcommand_from {words.name}'"
        for word in words.completions:
            flag = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
            lines.append(f"complete -c {PROGRAM} {condition} {flag}")
    return "\n".join(lines) + "\n"
