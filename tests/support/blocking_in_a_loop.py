"""For tests that call both colours of a verb: elsewhere, a blocking verb in an event loop is an error."""

import pytest

both_colours = pytest.mark.filterwarnings("ignore:.* stops the event loop of this thread")
