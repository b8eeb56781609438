"""The command line: ``python -m mgpu_helpers COMMAND``; ``--help`` lists the commands."""

from __future__ import annotations

import importlib
import sys
from typing import Any, NoReturn

import click

# Each command is listed with its module and its name there. A module is imported only when its
# command is called, or when the help shows its first line.
COMMANDS = {
    'data': ('mgpu_helpers.data.command', 'bring'),
    'doctor': ('mgpu_helpers.doctor', 'doctor'),
}


class Commands(click.Group):
    """A click group of ``COMMANDS``; each command is imported only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the command names."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import and return a command, or None if there is no such command."""
        if name not in COMMANDS:
            return None
        module, attribute = COMMANDS[name]
        return getattr(importlib.import_module(module), attribute)

    def main(self, *args: Any, **options: Any) -> NoReturn:
        """Run a command; Ctrl-C exits with 130, the status that shells expect, not click's 1."""
        try:
            status = super().main(*args, **options | {'standalone_mode': False})
        except click.ClickException as error:
            error.show()
            status = error.exit_code
        except click.Abort:
            status = 130
        sys.exit(status)


@click.command(cls=Commands, context_settings={'help_option_names': ['-h', '--help']})
def main() -> None:
    """Training on several GPUs: the course's shell commands."""


if __name__ == '__main__':
    main(prog_name='python -m mgpu_helpers')
