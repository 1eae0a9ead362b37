"""Apps of ``flwr-kld init`` return each report to its nodes: any of them may be the odd one."""

import importlib
import sys
import tomllib

import pytest
from flwr.app import Context, RecordDict

from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.trust.envelopes import REPORT_ACTION


def rows(soft: int) -> str:
    kinds = ["soft"] * soft + ["none"] * (4000 - soft)
    return "\n".join(["defect", *kinds])


@pytest.mark.parametrize("soft", [160, 520])
def test_nodes_get_the_report_whether_a_column_moved_or_not(
    cli, tmp_path, monkeypatch, capsys, soft
):
    (tmp_path / "sample.csv").write_text(rows(160))
    (tmp_path / "moved.csv").write_text(rows(soft))
    name = f"orchard{soft}"
    made = cli("init", tmp_path / "sample.csv", "--out", tmp_path / name, "--schedule", "0 3 1 * *")
    assert made.exit_code == 0, made.output
    monkeypatch.syspath_prepend(tmp_path / name)
    client, server = (
        importlib.import_module(f"{name}.{side}_app") for side in ("client", "server")
    )
    config = tomllib.loads((tmp_path / name / "pyproject.toml").read_text())
    config = config["tool"]["flwr"]["app"]["config"] | {"drift-sample": ""}
    returned = []

    def node(message, context):
        if message.metadata.message_type.endswith(REPORT_ACTION):
            returned.append(context.node_id)
        return client.app(message, context)

    grid = InProcessGrid(node, 2)
    grid.set_run_config(config)
    for context in grid.contexts.values():
        context.node_config["drift-records"] = str(tmp_path / "moved.csv")
    server.app(grid, Context(1, 1, {}, RecordDict(), config))
    assert "ALARM" not in capsys.readouterr().out
    assert len(returned) == 2
    for module in [one for one in sys.modules if one.partition(".")[0] == name]:
        del sys.modules[module]
