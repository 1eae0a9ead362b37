"""Whom a check asks, in which halves, and what that costs these people.

>>> cohort = RotatingCohort(2)
>>> present = [Participant(node) for node in range(6)]
>>> asked = [cohort.draw(present, np.random.default_rng(0)) for _ in range(3)]
>>> sorted(str(client) for clients in asked for client in clients)
['0:0', '1:0', '2:0', '3:0', '4:0', '5:0']
"""
