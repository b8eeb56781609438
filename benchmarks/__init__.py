"""How fast the course's code is, as ratios of runs measured side by side in one session.

``cases`` lists the runs, ``figures`` the pairs that are compared, ``ratios`` computes the ratios;
``measuring`` runs cases in rounds, ``result`` stores the measurements, ``tables`` and ``picture``
show them. Each run is a process of its own, in which ``run`` calls one function: of ``chapter1`` to
``chapter7`` (ours), ``peer_*`` (what one would use instead), ``imports`` (time to import) or
``limits`` (what this machine can do at most). ``protocol`` is how it talks to its parent process.
"""
