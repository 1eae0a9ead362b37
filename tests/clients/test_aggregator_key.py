"""The aggregator's key is a file that only its operator reads."""

import logging

from federation import app_of
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from flwr_kld.clients import AggregatorKey, aggregate_drift_checks
from flwr_kld.simulations.in_process_grid import InProcessGrid

ASKS = AggregatorKey.generate()


def role(app: ClientApp, challenge: object = ASKS.public, **config: str) -> dict[str, object]:
    """What a node says when it is asked for its role."""

    def run(message: Message, context: Context) -> Message:
        context.node_config.update(config)
        return app(message, context)

    grid = InProcessGrid(run, 1)
    asked = RecordDict({"challenge": ConfigRecord({"challenge": challenge})})
    (reply,) = grid.send_and_receive([Message(asked, 1000, "query.drift_role")])
    return dict(reply.content["answer"])


def test_a_key_that_others_may_read_is_none(tmp_path, caplog):
    key, file, app = AggregatorKey.generate(), tmp_path / "key", app_of()
    key.save(file)
    aggregate_drift_checks(app)
    config = {"drift-role": "aggregator", "drift-key": str(file)}
    shown = {"answer": key.public.hex(), "proof": ASKS.proof(key.public)}
    assert role(app, **config) == shown
    for challenge in (b"", bytes(32), bytes(33), "", 7):
        assert "not a public key" in role(app, challenge, **config)["answer"]
    for mode in (0o640, 0o604):
        file.chmod(mode)
        with caplog.at_level(logging.ERROR):
            assert role(app, **config) == {"answer": "without a key"}
        assert f"{file}: others may read it: set its mode to 0600" in caplog.text
        caplog.clear()
    assert role(app) == {"answer": ""}
