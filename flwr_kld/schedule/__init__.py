"""When checks run: cron expressions and intervals, and the loop that waits for them."""

from flwr_kld.schedule.loop import Slot, run_schedule
from flwr_kld.schedule.stop import Stop, stop_on_signals
from flwr_kld.schedule.times import Cron, Every, Schedule, parse_schedule

__all__ = [
    "Cron",
    "Every",
    "Schedule",
    "Slot",
    "Stop",
    "parse_schedule",
    "run_schedule",
    "stop_on_signals",
]
