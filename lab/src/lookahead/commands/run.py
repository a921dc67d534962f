"""`lookahead run EXPERIMENT`: a command for each experiment, made from what it declares."""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import click

from lookahead.cold import choose_place
from lookahead.commands.options import (
    HELP_OPTIONS,
    PLACE_OPTIONS,
    CommandContext,
    OptionValue,
    only_one,
    pass_command_context,
    path_option,
    seed_option,
)
from lookahead.comparisons import proofs
from lookahead.experiments import bitmap_scan, bulk_insert, index_build, index_scan
from lookahead.experiments.experiment import Experiment, Flag, Option, run_experiment
from lookahead.experiments.runner import SIZES, RunRequest, Size
from lookahead.report.page import write_page
from lookahead.report.result_tables import render_tables
from lookahead.report.sentences import headline
from lookahead.report.tables import to_csv, to_markdown
from lookahead.results import ResultDocument, encode, read_result

# In the order in which `make bench` runs them.
EXPERIMENTS: tuple[Experiment[Any], ...] = (
    index_scan.EXPERIMENT,
    index_build.EXPERIMENT,
    bulk_insert.EXPERIMENT,
    bitmap_scan.EXPERIMENT,
)

_DEFAULT_SIZE: Size = "quick"

_COMMON_OPTIONS = (
    click.option("--demo", is_flag=True, help="Smallest size: at most 30 s a scenario."),
    click.option("--quick", is_flag=True, help="Middle size, the default: minutes."),
    click.option("--full", is_flag=True, help="Full size: tables of GB, hours."),
    *PLACE_OPTIONS,
    click.option("--json", is_flag=True, help="Print the result file."),
    click.option("--markdown", is_flag=True, help="Print the tables as Markdown."),
    click.option("--csv", is_flag=True, help="Print the tables as CSV."),
    path_option(
        "--profile", "FILE", "Device profile of `lookahead probe` for the server. Default: none."
    ),
    seed_option("Seed of the data, the keys and the interval."),
    click.option(
        "--keep",
        is_flag=True,
        help="Keep the server's folder, to look at its log, or to start the server again.",
    ),
)
_FORMS: dict[str, Callable[[ResultDocument], str]] = {
    "json": encode,
    "markdown": lambda document: to_markdown(render_tables(document)),
    "csv": lambda document: to_csv(render_tables(document)),
}
_OF_THE_REQUEST = ("pg_config", "library", "output", "profile", "seed", "keep")


def make_run_group(experiments: Iterable[Experiment[Any]]) -> click.Group:
    group = click.Group(
        "run",
        help="Measure stock PostgreSQL against pg_lookahead on a private server.\n\n"
        "Every run writes a result file with all raw samples and a page with its plots.",
        context_settings=HELP_OPTIONS,
    )
    for experiment in experiments:
        group.add_command(_command(experiment))
    return group


def _command(experiment: Experiment[Any]) -> click.Command:
    @click.pass_context
    @pass_command_context
    def run_it(context: CommandContext, ctx: click.Context, /, **values: Any) -> None:
        given = _given(experiment, ctx, values)
        form = only_one({name: values[name] for name in _FORMS}, "Name one form.")
        request = run_request(context, values)
        show_outcome(context, run_experiment(experiment, request, given, context.terminal), form)

    command = click.command(
        experiment.name,
        help=f"{experiment.summary}\n\n{experiment.description}",
        short_help=experiment.summary,
        context_settings=HELP_OPTIONS,
    )(run_it)
    command.params += [_parameter(option, experiment) for option in experiment.options]
    for decorate in _COMMON_OPTIONS:
        decorate(command)
    return command


def _parameter(option: Option, experiment: Experiment[Any]) -> click.Option:
    if isinstance(option.kind, Flag):
        return click.Option([option.flag, option.name], is_flag=True, help=option.help)
    return click.Option(
        [option.flag, option.name],
        type=OptionValue(option),
        multiple=option.is_list,
        metavar=f"{option.kind.metavar},..." if option.is_list else option.kind.metavar,
        help=f"{option.help} Default: {_default(option, experiment)}.",
    )


def _default(option: Option, experiment: Experiment[Any]) -> str:
    """What the sizes have, that of the default size first."""
    if option.default:
        return option.default
    shown = {size: option.show(getattr(experiment.sizes[size], option.name)) for size in SIZES}
    usual = shown.pop(_DEFAULT_SIZE)
    others = [f"with --{size} {text}" for size, text in shown.items() if text != usual]
    return "; ".join([usual, *others])


def _given(
    experiment: Experiment[Any], ctx: click.Context, values: Mapping[str, Any]
) -> dict[str, Any]:
    """The values of the options that were named; of a list each item once.

    Items that are written alike are one: by that they are told apart in results.
    """
    given = {}
    for option in experiment.options:
        if ctx.get_parameter_source(option.name) is click.core.ParameterSource.DEFAULT:
            continue
        value = values[option.name]
        if option.is_list:
            first: dict[str, Any] = {}
            for item in chain.from_iterable(value):
                first.setdefault(option.kind.show(item), item)
            value = tuple(first.values())
        given[option.name] = value
    return given


def run_request(context: CommandContext, values: Mapping[str, Any]) -> RunRequest:
    """What the common options say; LabError when they contradict each other."""
    size = only_one({name: values[name] for name in SIZES}, "Name one size.")
    asked = {name: values[name] for name in _OF_THE_REQUEST}
    directory = values["directory"] or default_directory(context)
    return RunRequest(
        size=size or _DEFAULT_SIZE, directory=directory, command=context.command, **asked
    )


def default_directory(context: CommandContext) -> Path:
    """Where the server's folder is made when no place was named; says so when it is unusual."""
    place, temporary = choose_place(), Path(gettempdir())
    if place != temporary:
        context.terminal.step(f"the server's folder is made in {place}, not in {temporary}")
    return place


def show_outcome(context: CommandContext, result: Path, form: str | None = None) -> None:
    """Write the page of a result file; show its tables, where both are and what they say.

    With a form, one of `_FORMS`, standard output has nothing but the result in that form.
    """
    terminal, document = context.terminal, read_result(result)
    page = write_page([(result.name, document)], result.with_suffix(".html"))
    said = headline(document.experiment, document.measurements.comparisons)
    where = (f"result:     {result}", f"page:       {page}", "", *said)
    if form is not None:
        terminal.raw(_FORMS[form](document).rstrip())
        for line in where:
            terminal.step(line)
        return
    terminal.tables(render_tables(document))
    for line in (*proofs(document.measurements), *where):
        terminal.result(line)


run = make_run_group(EXPERIMENTS)
