"""The papers' own algorithms, as baselines: only studies and benchmarks import them.

They run on a study's own data or on numbers that are public, with the product's laws and sampler.

==================  ==============================================  ===========================
here                what it is                                      what the product has
==================  ==============================================  ===========================
`scalar`            one noised number (PRIEST-KLD, Algorithms 1-2)  noised counts, `Trusted`
`monte_carlo`       iid draws from Π, a plan for ``KLDrift(plan=)``  `Partition`
`estimators`        ``Σ w [λ (r - 1) - ln r]``, and D_θ read so     `posterior_counts`
`learners`          Algorithms 1 and 2 of the online paper          `BayesMixture`
`theorems`          what the papers' theorems promise               proofs of what is shipped
==================  ==============================================  ===========================

`sensitivity` belongs to the scalar; `clipping`, `composition` and `noised_scores` to the learners.
Algorithm 3 and the trusted aggregator of PRIEST-KLD are `Distributed` and `TrustedAggregator`.
"""
