"""The question of a check: which cells of the domain, which clients, and which of their records.

>>> cohort = RotatingCohort(2)
>>> present = [Participant(node) for node in range(6)]
>>> asked = [cohort.draw(present, np.random.default_rng(0)) for _ in range(3)]
>>> sorted(str(client) for clients in asked for client in clients)
['0:0', '1:0', '2:0', '3:0', '4:0', '5:0']
"""
