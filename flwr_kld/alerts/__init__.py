"""Who is told of a drift: a webhook, or a command of the operator's."""
