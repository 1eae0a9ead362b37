"""Counts on both sides of the privacy line.

`ClientCounts`, `SumVector` and `ClearSum` are private: they exist only until noise is added, and
have verbs for what may be done with their values, which nobody else reads. `NoisyCounts` is public:
estimators, reports and plots take nothing else.
"""
