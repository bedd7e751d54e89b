"""`python -m holdfast.cli`, for where the `holdfast` script is not on the path."""

import sys

from holdfast.cli import main

sys.exit(main())
