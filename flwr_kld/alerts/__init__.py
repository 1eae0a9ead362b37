"""Who is told of a drift: a webhook, or a command of the operator's."""

from flwr_kld.alerts.command import Command
from flwr_kld.alerts.delivery import Alert, Delivery, send_alerts
from flwr_kld.alerts.webhook import SIGNATURE_HEADER, Webhook

__all__ = ["SIGNATURE_HEADER", "Alert", "Command", "Delivery", "Webhook", "send_alerts"]
