"""The pyproject.toml of a small Flower app that a test writes."""

import json


def pyproject(name: str, server: str, client: str, **config: object) -> str:
    """A project whose components are these, such as ``"app:server"``, with a run config."""
    given = "\n".join(f"{key} = {json.dumps(value)}" for key, value in config.items())
    return f"""
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "1.0.0"

[tool.flwr.app]
publisher = "flwr-kld"

[tool.flwr.app.components]
serverapp = "{server}"
clientapp = "{client}"

[tool.flwr.app.config]
{given}
"""
