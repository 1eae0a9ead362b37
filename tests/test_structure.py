"""The tree as its imports draw it: one way, between files and between folders; lazy ones count."""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "flwr_kld": ROOT / "flwr_kld",
    "flwr_kld.strategies": ROOT / "strategies",
    "flwr_kld.clients": ROOT / "clients",
    "flwr_kld.simulations": ROOT / "simulations",
}


def named(package: str, folder: Path, path: Path) -> str:
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join((package, *parts)).removesuffix(".__init__")


FILES = {
    named(package, folder, path): path
    for package, folder in PACKAGES.items()
    for path in sorted(folder.rglob("*.py"))
    if "drift_app" not in path.parts  # an app of its own, which imports the package
}


def imports(path: Path) -> set[str]:
    """Everything that a file imports, wherever it does; a module of ours by its own name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, path
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & FILES.keys()) | (
                {str(node.module)} if inner - FILES.keys() else set()
            )
        elif isinstance(node, ast.Constant) and path.name != "__init__.py":
            found |= {str(node.value)} & FILES.keys() - {"flwr_kld"}  # imported by its name
    return found


@cache
def all_imports() -> dict[str, set[str]]:
    return {name: imports(path) for name, path in FILES.items()}


ORDER = (
    "kernel", "common", "table", "reference", "ask", "ledger", "trust", "infer", "guard",
    "secure_sums", "predictors", "integral", "planner", "report", "views", "serve",
    "strategies", "clients", "simulations", "cli", "flwr_kld",
)  # fmt: skip
"""The rooms: each imports those before it alone."""

OWNERS = {
    "secure_sums": {"strategies", "clients"},
    "predictors": {"strategies", "clients", "simulations"},
    "integral": set(),
}
"""Who imports what stands by itself."""


def room(name: str) -> str:
    """The room of a module: its top folder, or a loose module's own name."""
    return name.split(".")[1] if "." in name else name


def place(name: str) -> str:
    """The folder of a module; the loose modules, on which every folder stands, each for itself."""
    folder = FILES[name].parent
    return name if folder == PACKAGES["flwr_kld"] else folder.relative_to(ROOT).as_posix()


def require_one_way(edges: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_files_import_one_way():
    require_one_way(
        {name: (found & FILES.keys()) - {name} for name, found in all_imports().items()}
    )


def test_folders_import_one_way():
    edges: dict[str, set[str]] = {}
    for name, found in all_imports().items():
        targets = {place(target) for target in found & FILES.keys()}
        edges.setdefault(place(name), set()).update(targets - {place(name)})
    require_one_way(edges)


def test_rooms_import_those_before_them():
    for name, found in all_imports().items():
        if name.startswith(("flwr_kld.simulations.studies", "flwr_kld.simulations.bench")):
            continue
        for target in found & FILES.keys():
            assert ORDER.index(room(target)) <= ORDER.index(room(name)), (name, target)


def test_sums_predictors_and_draws_stand_by_themselves():
    for name, found in all_imports().items():
        if name.startswith(("flwr_kld.simulations.studies", "flwr_kld.simulations.bench")):
            continue
        for target in found & FILES.keys():
            alone = room(target)
            if alone in OWNERS and room(name) != alone:
                assert room(name) in OWNERS[alone], (name, target)


def test_a_cycle_is_found():
    with pytest.raises(pytest.fail.Exception, match=r"\ba\b.*\bb\b|\bb\b.*\ba\b"):
        require_one_way({"a": {"b"}, "b": {"a"}})


def test_a_lazy_import_counts(tmp_path):
    file = tmp_path / "lazy.py"
    file.write_text("def later():\n    from flwr_kld.trust import sealing, nothing\n")
    assert imports(file) == {"flwr_kld.trust.sealing", "flwr_kld.trust"}


def test_the_science_imports_neither_flower_nor_ray():
    flower = ("flwr_kld.strategies", "flwr_kld.clients", "flwr_kld.simulations")
    for name in FILES:
        if not name.startswith(flower):
            assert not {found.split(".")[0] for found in all_imports()[name]} & {"flwr", "ray"}, (
                name
            )


def test_clients_import_nothing_of_the_server():
    for name in FILES:
        if name.startswith("flwr_kld.clients"):
            assert not [f for f in all_imports()[name] if f.startswith("flwr_kld.strategies")], name


def test_only_studies_and_benchmarks_import_studies():
    """The product has what it recommends: the papers' own algorithms, say, are baselines."""
    rooms = ("flwr_kld.simulations.studies", "flwr_kld.simulations.bench")
    for name, found in all_imports().items():
        if not name.startswith(rooms):
            assert not [target for target in found if target.startswith(rooms)], name


def test_a_folder_of_tests_is_found_before_one_of_the_root_that_has_its_name():
    """`python -m pytest` has the root on the path as well, behind the tests."""
    tests = ROOT / "tests"
    shared = [folder.name for folder in PACKAGES.values() if (tests / folder.name).is_dir()]
    assert shared
    for name in shared:
        found = PathFinder.find_spec(name, [str(tests), str(ROOT)])
        assert found.submodule_search_locations == [str(tests / name)]


def test_what_a_node_logs_stays_on_it():
    """Flower's logger may send its lines to another machine; a node's may say what records hold."""
    for folder in ("flwr_kld", "clients"):
        for file in (ROOT / folder).rglob("*.py"):
            named = re.findall(r"getLogger\((.*?)\)", file.read_text())
            assert set(named) <= {'"flwr_kld"', '"apprise"'}, file
