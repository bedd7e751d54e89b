"""One read model and one set of operator actions, shared by Python and the command line."""
