"""From noisy counts to a verdict: estimators, bounds of D_θ, power, and evidence over checks.

Everything here reads public numbers only, and costs no privacy.
"""
