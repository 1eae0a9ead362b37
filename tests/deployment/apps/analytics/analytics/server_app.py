import time

from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from analytics.task import COLUMNS

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    while len(nodes := list(grid.get_node_ids())) < int(context.run_config["nodes"]):
        time.sleep(1)
    replies = grid.send_and_receive([Message(RecordDict(), node, "query") for node in nodes])
    means = [reply.content["means"] for reply in replies if not reply.has_error()]
    for name in COLUMNS:
        print(f"{name}: {sum(mean[name] for mean in means) / len(means):.1f} on average")
