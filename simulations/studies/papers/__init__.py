"""The papers' own algorithms, as baselines: no part of the product.

They run on a study's own data or on numbers that are public, with the product's laws and sampler.

==================  ==============================================  ===========================
here                what it is                                      what the product has
==================  ==============================================  ===========================
`learners`          Algorithms 1 and 2 of the online paper          `BayesMixture`
==================  ==============================================  ===========================

`rounds` has the theorems of boosting, mended; ``simulations/studies/theorems.py`` computes every
statement of the three papers, and says which hold. PRIEST-KLD's rules are those of its study.
Algorithm 3 and the trusted aggregator of PRIEST-KLD are `Distributed` and `TrustedAggregator`.
"""
