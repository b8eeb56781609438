"""How fast the course's code is, as ratios of runs that take turns in one session.

``cases`` lists the runs and the rows that compare them; ``measuring`` runs them, ``result`` stores
and shows what came out. Each run is a process of its own, in which ``run`` calls one function of
``ours`` or of a ``peer_*`` (what one would use instead); ``protocol`` is how it talks to us.
"""
