"""Every fenced block of README and docs runs, or is held to what would run it."""

import ast
import configparser
import importlib
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction
from pathlib import Path

import click
import pytest
import typer
import yaml
from cronsim import CronSim
from federation import REFERENCE
from flwr.clientapp import ClientApp
from recipes import BLOCKS, PAGES, ROOT, Block
from strategies.test_ledger_accountant import START, training_app

from flwr_kld import Binned, Labels, Reference, Table
from flwr_kld.cli.app import COMMANDS, app, load
from flwr_kld.clients import answer_drift_queries
from flwr_kld.ledger import Budget, Ledger
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import PrivatePredictor

FLWR_KLD = typer.main.get_command(app)
FLWR_KLD.commands = {name: load(name) for name in COMMANDS}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TESTS = {
    path: path.read_text(encoding="utf-8")
    for path in (ROOT / "tests").rglob("*.py")
    if path != Path(__file__)
}
SHELL = ("", "sh", "console", "cron", "ini", "yaml")
DATA = {
    "json": json.loads,
    "toml": tomllib.loads,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
}
KNOWN = {"text", "python", *SHELL, *DATA}


def of(*languages: str, tag: str | None = None) -> pytest.MarkDecorator:
    chosen = [b for b in BLOCKS if b.language in languages and (tag is None or b.tag == tag)]
    return pytest.mark.parametrize("block", chosen, ids=lambda block: block.place)


def named_in_tests(name: str) -> bool:
    return any(f'"{name}"' in text or f"example: {name}" in text for text in TESTS.values())


def test_every_block_is_of_a_kind_that_is_checked():
    assert {block.language for block in BLOCKS} <= KNOWN


def test_no_two_files_share_a_name():
    names = [block.name for block in BLOCKS if block.name]
    assert len(names) == len(set(names))


@of("python", tag="recipe")
def test_a_test_runs_each_recipe(block):
    if block.page.name != "trust-models.md":  # whose test runs whatever recipe is there
        assert named_in_tests(block.name)


@of("python", tag="lines")
def test_lines_import_what_there_is(block):
    """They stand in somebody's app, which is not here."""
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("flwr_kld"):
            module = importlib.import_module(str(node.module))
            assert all(hasattr(module, alias.name) for alias in node.names)


@of("python", tag="example")
def test_each_example_prints_what_its_page_says(block, tmp_path, here, capsys):
    if named_in_tests(block.name):
        pytest.skip("a test of its own runs it")
    if block.name == "restored.py":
        Ledger("sqlite:///drift.db").set_budget(Budget(1.0, 1e-6, window_days=30))
    exec(compile(block.text, block.place, "exec"), {"__name__": block.name})
    following = BLOCKS[BLOCKS.index(block) + 1 :][:1]
    printed = capsys.readouterr().out
    if following and following[0].page == block.page and following[0].language == "text":
        assert printed == following[0].text
    else:
        assert len(printed.splitlines()) <= 1


def audited() -> dict[str, object]:
    """Receipts of a node, and what an auditor knows of it."""
    from guard.files import period_of

    from flwr_kld.guard.receipts import Claim, Receipts
    from flwr_kld.secure_sums import Identity

    key = Identity.generate()
    file = Receipts(Path("receipts.db"), key)
    claim = Claim("c1", "0", "p", "t", "none", "trusted", Fraction(10), Fraction(0), "record", 0, 0)
    receipt = file.reserve(claim, 1000.0, period_of(86400, 100, 1))
    return {"node_public_key": key.public, "head_of_last_audit": receipt.digest}


PRELUDES = {
    "describe.md": lambda: {"grid": clinics()},
    "guard.md": audited,
    "predictors.md": lambda: candidate_laws(),
    "ledger.md": lambda: {
        "grid": InProcessGrid(training_app([]), nodes=3),
        "initial_arrays": START,
        "reference": REFERENCE,
    },
    "model-monitoring.md": lambda: imported() | {"my_rows": lambda context: {"age": [30]}},
    "tables.md": lambda: imported() | {"public": people()},
}
"""What the loose blocks of a page take as given."""


def candidate_laws() -> dict[str, object]:
    usual, strike = (Reference.from_counts(Labels(["bus", "car"]), own) for own in ([1, 1], [1, 9]))
    given = {"BayesMixture": BayesMixture, "Hypotheses": Hypotheses}
    return given | {"PrivatePredictor": PrivatePredictor, "usual": usual, "strike": strike}


def clinics() -> InProcessGrid:
    Ledger("sqlite:///drift.db").set_budget(Budget(8.0, 1e-6, window_days=30))
    app, table = ClientApp(), Table({"age": Binned([20, 40, 60, 80])})
    table.to_toml("table.toml")
    answer_drift_queries(app, lambda context: {"age": [30, 50, 70] * 50}, table)
    return InProcessGrid(app, nodes=3)


def imported() -> dict[str, object]:
    given = {"Binned": Binned, "Table": Table, "answer_drift_queries": answer_drift_queries}
    return given | {"app": ClientApp()}


def people() -> list[dict[str, object]]:
    return 20 * [
        {"age": 40, "job": "nurse", "score": 0.5, "admitted": "2026-01-05T10:00"},
        {"age": 20, "job": "clerk", "score": 0.1, "admitted": "2026-01-06T11:00"},
    ]


LOOSE = [
    page
    for page in PAGES
    if any(b.page == page and b.language == "python" and b.tag is None for b in BLOCKS)
]


@pytest.mark.parametrize("page", LOOSE, ids=lambda page: page.name)
def test_the_loose_blocks_of_a_page_run_one_after_the_other(page, tmp_path, here):
    if any(f'"{page.name}"' in text and "integral" in path.parts for path, text in TESTS.items()):
        pytest.skip("a test of its own runs them")
    names = PRELUDES.get(page.name, dict)()
    for block in BLOCKS:
        if block.page == page and block.language == "python" and block.tag is None:
            exec(compile(block.text, block.place, "exec"), names)


@of(*DATA)
def test_data_parse(block):
    DATA[block.language](block.text)


@of("ini")
def test_units_parse(block):
    units = configparser.ConfigParser(strict=False, interpolation=None)
    units.optionxform = str
    units.read_string(block.text)
    assert units.sections()


@of("cron")
def test_cron_lines_have_a_time(block):
    for line in block.text.splitlines():
        if not re.match(r"\w+=|#", line):
            next(CronSim(" ".join(line.split()[:5]), datetime(2026, 1, 1)))


def typed_lines(block: Block) -> Iterator[str]:
    """Lines that are typed, without their continuations, comments and prompts."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if block.language != "console" or line.startswith("$ "):
            yield re.sub(r"\s+# .*|^#.*|…", "", line.removeprefix("$ "))


def invocations(block: Block, program: str) -> Iterator[list[str]]:
    """Arguments of each call of a program in a block of shell."""
    for line in typed_lines(block):
        for found in re.finditer(rf"(?:^|[\s(/\"'=]){program} (?!\()", line):
            rest = re.split(r" (?:2>&1|\|\||&&|[|>])|\) ", line[found.end() :])[0]
            yield shlex.split(rest.rstrip(")"))


def require_command(command: click.Command, arguments: list[str]) -> None:
    """Parse a command line as the program does, options, arguments and all; run nothing."""
    name = "flwr-kld"
    while isinstance(command, click.Group):
        name = arguments[0]
        assert name in command.commands, f"there is no command {name}"
        command, arguments = command.commands[name], arguments[1:]
    command.make_context(name, arguments)


@of(*SHELL)
def test_commands_and_options_exist(block):
    for arguments in invocations(block, "flwr-kld"):
        require_command(FLWR_KLD, arguments)


INLINE = [
    pytest.param(found, id=f"{page.name}: {found}")
    for page in PAGES
    for found in re.findall(
        r"(?<!`)`flwr-kld ([a-z][^`]*)`(?!`)",
        re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.S),
    )
]


@pytest.mark.parametrize("text", INLINE)
def test_commands_in_sentences_exist(text):
    """Options that are shown exist; what else a command needs may be left out."""
    words = [word for word in re.split(r"\s+", text) if word not in ("…", "COMMAND")]
    command: click.Command = FLWR_KLD
    while words and isinstance(command, click.Group) and words[0].isidentifier():
        name = words.pop(0)
        assert name in command.commands, f"there is no command {name}"
        command = command.commands[name]
    options = {spelled for one in command.params for spelled in one.opts} | {"--help"}
    assert {word for word in words if word.startswith("-")} <= options


def test_a_command_that_is_not_there_is_found():
    with pytest.raises(AssertionError, match="chekc"):
        require_command(FLWR_KLD, ["chekc"])
    with pytest.raises(click.NoSuchOption):
        require_command(FLWR_KLD, ["check", "--shedule", "0 3 * * *"])


@of("sh", "console")
def test_targets_and_extras_exist(block):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    for line in typed_lines(block):
        if line.startswith("make "):
            assert {target for target in line.split()[1:] if "=" not in target} <= set(targets)
    for extras in re.findall(r"flwr-kld\[([\w,]+)\]", block.text):
        assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()


@of("sh", "console")
def test_options_of_flower_exist(block):
    from flwr.cli.app import typer_click_object as flwr

    supernode = importlib.import_module("flwr.supernode.cli.flower_supernode")
    parser = supernode._parse_args_run_supernode()
    for arguments in invocations(block, "flower-supernode"):
        parser.parse_args(arguments)
    for arguments in invocations(block, "flwr"):
        require_command(flwr, arguments)


CODE = [path.read_text("utf-8") for path in (ROOT / "clients").rglob("*.py")]
NODE_KEYS = set(re.findall(r'"(drift-[a-z-]+)"', "".join(CODE)))


@of(*SHELL)
def test_keys_of_the_node_config_exist(block):
    found = re.findall(r"--node-config\s+'([^']*)'", block.text.replace("\\\n", " "))
    for key in re.findall(r"(\S+)=", " ".join(found)):
        assert key in NODE_KEYS
