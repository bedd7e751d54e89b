"""What ends the demo before its time: Ctrl-C, a service manager, a terminal that is closed."""

import signal

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 130


def take_as_ctrl_c() -> None:
    for number in STOP_SIGNALS:
        signal.signal(number, signal.default_int_handler)
