"""A study that is run as a command sends its work to processes that have not run it."""

import subprocess
import sys
from pathlib import Path

import flwr_kld.simulations.studies

(STUDIES,) = map(Path, flwr_kld.simulations.studies.__path__)
SEND = """
import sys
from pathlib import Path
import ray.cloudpickle

folder, *commands = sys.argv[1:]
for command in commands:
    sys.argv = [command, "--help"]
    try:
        exec(compile(Path(command).read_text(), command, "exec"), globals())
    except SystemExit:
        Path(folder, Path(command).name).write_bytes(ray.cloudpickle.dumps(measure))
"""
RECEIVE = """
import sys
from pathlib import Path
import ray.cloudpickle

for file in sorted(Path(sys.argv[1]).iterdir()):
    if callable(ray.cloudpickle.loads(file.read_bytes())):
        print(file)
"""


def test_what_a_command_sends_can_be_read_where_it_was_not_run(tmp_path):
    """Ray sends a command's functions with all that they use: a cache among that is unreadable."""
    files = sorted(STUDIES.glob("predictor_*.py"))
    commands = [file for file in files if "def main(" in file.read_text()]
    assert len(commands) == 2
    for code, *arguments in ((SEND, tmp_path, *commands), (RECEIVE, tmp_path)):
        python = [sys.executable, "-c", code, *map(str, arguments)]
        done = subprocess.run(python, capture_output=True, text=True)
        assert not done.returncode, done.stderr[-2000:]
    assert done.stdout.split() == [str(tmp_path / file.name) for file in commands]
