"""How fast the course's code is, as ratios of runs measured side by side in one session.

``cases`` says what is run, ``figures`` which two make a figure, ``ratios`` how;
``measuring`` runs them in rounds, ``result`` keeps what was measured, ``tables`` and ``picture``
show it. Each run is a process of its own: ``run`` calls a function there, of ``chapter1`` to
``chapter7`` (ours), of ``peer_*`` (what one would use instead), ``imports`` (how long one waits) or
``limits`` (what this machine can do at most); ``protocol`` is how it talks to its starter.
"""
