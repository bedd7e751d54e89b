"""One read model and one set of operator actions, shared by Python, the command line, metrics and the web."""
