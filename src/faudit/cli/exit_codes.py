"""The exit codes of every command.

0    done; ``audit``: trustworthy
1    ``audit``: needs walk-back; ``train`` and ``sweep``: a run diverged
2    an error that one line explains
3    ``audit``: inconclusive
70   a bug of faudit: the traceback is on stderr
71   your code (``--model``, ``--credit``) called ``sys.exit``
74   a result could not be written to stdout
130  interrupted
141  the reader of stdout exited before it had read everything, as ``head`` does
"""

from __future__ import annotations

from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK

ERROR, BUG, FOREIGN_EXIT, NO_OUTPUT, INTERRUPTED, CLOSED_PIPE = 2, 70, 71, 74, 130, 141
VERDICTS = {TRUSTWORTHY: 0, WALK_BACK: 1, INCONCLUSIVE: 3}
