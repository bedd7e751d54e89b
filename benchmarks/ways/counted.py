"""Where the handlers of a program count: in the tally that the measuring process reads."""

import atexit
import os
from contextlib import ExitStack
from pathlib import Path

from benchmarks.peers.tally import Tally
from benchmarks.ways.program import TALLY

_stack = ExitStack()
# Views of shared memory have to go before the memory does.
atexit.register(_stack.close)

tally = _stack.enter_context(Tally.own(Path(os.environ[TALLY])))
