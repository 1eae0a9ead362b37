"""Prio3: two aggregators check a client's counts of which neither sees one.

As in the IETF's draft-irtf-cfrg-vdaf-20, with its Field64, several proofs and TurboSHAKE128. To
read from top to bottom: `field`, `transform`, `circuit`, `proof`, `expander`, `shares`.
Proof note: ``docs/proofs/prio3.md``.
"""
