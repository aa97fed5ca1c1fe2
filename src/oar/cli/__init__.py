"""The command `oar`: parse, call the library, print. One file per command; `options` and `inputs` are shared."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from oar.checks import check_text
from oar.cli.commands.audit import audit
from oar.cli.commands.paper import embed_mnist, outside, reproduce
from oar.cli.commands.plan import plan
from oar.cli.commands.questions import leverage, questions
from oar.cli.commands.respond import respond
from oar.cli.commands.schema import limits, schema
from oar.cli.commands.simulate import simulate
from oar.cli.commands.study import EXAMPLE as STUDY_EXAMPLE
from oar.cli.commands.study import study
from oar.cli.error_words import OPTIONS
from oar.cli.terminal import ENDINGS, clear_endings, left_at_once
from oar.errors import OptionError
from oar.progress import listen
from oar.version import __version__

__all__ = ["app", "main"]

app = typer.Typer(
    help="Online algorithmic recourse by collective action.",
    epilog="Example: oar plan --example german-credit",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class OwnWords(TyperCommand):
    """A command whose errors are told in its own options."""

    def invoke(self, ctx: Any) -> Any:
        """Run it, with its options known to whoever tells an error; an option is left out, or says something."""
        with clear_endings():
            for each in self.params:
                if ctx.params.get(each.name) == "" and ctx.get_parameter_source(each.name).name == "COMMANDLINE":
                    raise OptionError(f"{each.opts[0]}: must not be empty, got ''; say what it is, or leave it out.")
        known = OPTIONS.set(frozenset(name for each in self.params for name in each.opts))
        try:
            return super().invoke(ctx)
        finally:
            OPTIONS.reset(known)


def main() -> None:
    """Run the command. Being told to end (SIGTERM, SIGHUP) leaves as little behind as Ctrl-C does."""
    listen(("SIGINT", *ENDINGS))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal cannot show is escaped, and does not end the command
            stream.reconfigure(errors="backslashreplace")
    with left_at_once(), clear_endings():
        for each in sys.argv[1:]:  # bytes that are no UTF-8 arrive as halves of characters
            check_text("arguments", each, "rename the file, or type it again in UTF-8")
        app()


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"oar {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Online algorithmic recourse by collective action."""


ASKING = "people.csv --target approved --query 17 --goal yes --budget 0.5"
COMMANDS: tuple[tuple[Callable[..., None], str, str], ...] = (  # what each does, and an example of it
    (plan, "Plan who should change what, and audit it.", f"plan {ASKING} --time-limit 60 --out plan"),
    (respond, "Tell members their own moves, from the card.", "respond plan/plan.json me.csv --keep purpose"),
    (
        audit,
        "Refit on what a card or moves make of the data.",
        "audit plan/plan.json people.csv --target approved --query 17",
    ),
    (questions, "How far, how many, and where is break-even?", f"questions {ASKING} --effort quick --time-limit 120"),
    (leverage, "How much leverage groups have.", f"leverage {ASKING} --group town --effort quick"),
    (simulate, "Tell a story over many rounds of retraining.", "simulate school --out school --seed 0"),
    (study, "Many cells at once, kept in a file that survives a kill.", STUDY_EXAMPLE),
    (reproduce, "Recompute the paper's figures.", "reproduce --out reproduction --seed 0"),
    (outside, "What is left where models are seen from outside.", "outside --out outside --adult adult --seed 0"),
    (embed_mnist, "Embed MNIST as the paper does.", "embed-mnist --folder mnist --out embedding"),
    (schema, "Show what the columns of a table are.", "schema people.csv --target approved --output schema.toml"),
    (
        limits,
        "Draft what may be done to the columns of a table.",
        "limits people.csv --target approved --output limits.toml",
    ),
)
for command, said, example in COMMANDS:
    shown = example if example is STUDY_EXAMPLE else f"Example: oar {example}"
    app.command(cls=OwnWords, short_help=said, epilog=shown)(command)
