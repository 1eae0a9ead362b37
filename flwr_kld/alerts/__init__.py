"""Who is told of drift, silence, budgets and dropouts, in which form, and when."""
