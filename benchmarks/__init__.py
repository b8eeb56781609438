"""How fast the course's code is, as ratios of runs measured side by side in one session.

``kinds`` says what is run, ``rows`` which two kinds make a figure, ``ratios`` how; ``measuring``
runs them in rounds, ``result`` keeps what was measured, ``report`` and ``picture`` show it. Each
run is a process of its own: ``run`` calls a function there, of ``chapter1`` to ``chapter5`` (ours),
of ``peer_*`` (what one would use instead), ``starting`` (how long one waits) or ``limits`` (what
this machine can do at most).
"""
