"""Who runs checks, watches them and is told: alerts, schedules, history and the live page."""
