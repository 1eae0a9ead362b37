"""When checks run: cron expressions and intervals, and the loop that waits for them."""
