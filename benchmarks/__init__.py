"""Measure how fast the course's code is, as ratios between runs that alternate in one session.

``cases`` lists the runs and the rows that compare them; ``measuring`` runs them, ``result`` stores
and shows the results. Each run is a separate process, in which ``run`` calls one function from
``ours`` or from a ``peer_*`` (an alternative to ours); ``protocol`` defines the messages.
"""
