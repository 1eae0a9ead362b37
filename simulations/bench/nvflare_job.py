"""NVFLARE's statistics of a table, in its simulator and an environment of its own.

python nvflare_job.py FOLDER SITES    # FOLDER/site-1.csv and so on; writes FOLDER/out
"""

import sys
from pathlib import Path

import pandas
from nvflare.apis.fl_context import FLContext
from nvflare.app_opt.statistics.df.df_core_statistics import DFStatisticsCore
from nvflare.recipe.fedstats import FedStatsRecipe
from nvflare.recipe.sim_env import SimEnv

BINS = {"*": {"bins": 20}}


class Sites(DFStatisticsCore):
    """The rows of a site."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def initialize(self, fl_ctx: FLContext) -> None:
        """Read them."""
        file = Path(self.folder) / f"{fl_ctx.get_identity_name()}.csv"
        self.data = {"rows": pandas.read_csv(file)}


if __name__ == "__main__":
    from nvflare_job import Sites as Named  # the job's file names the class by its module

    folder, sites = Path(sys.argv[1]), int(sys.argv[2])
    names = [f"site-{i + 1}" for i in range(sites)]
    wanted = {"count": {}, "mean": {}, "sum": {}, "stddev": {}, "histogram": BINS}
    recipe = FedStatsRecipe("statistics", "statistics.json", names, wanted, Named(str(folder)))
    recipe.execute(SimEnv(clients=names, workspace_root=str(folder / "out")))
