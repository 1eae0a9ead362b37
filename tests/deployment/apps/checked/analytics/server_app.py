import time

from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from analytics.client_app import table
from analytics.task import COLUMNS, query_database
from flwr_kld import Reference
from flwr_kld.strategies import KLDrift, Trusted

app = ServerApp()
public = query_database("/srv/analytics/public.db", COLUMNS)  # of no node's patients
trust = Trusted(epsilon=1.0, delta=1e-6)  # for all columns together
monitor = KLDrift(Reference.from_samples(table, public), trust, threshold=0.05)


@app.main()
def main(grid: Grid, context: Context) -> None:
    while len(nodes := list(grid.get_node_ids())) < int(context.run_config["nodes"]):
        time.sleep(1)
    replies = grid.send_and_receive([Message(RecordDict(), node, "query") for node in nodes])
    means = [reply.content["means"] for reply in replies if not reply.has_error()]
    for name in COLUMNS:
        print(f"{name}: {sum(mean[name] for mean in means) / len(means):.1f} on average")
    report = monitor.check(grid)
    for name, column in report.columns.items():
        print(f"{name}: {column.verdict.outcome}, {column.reading.of_population} nats")
