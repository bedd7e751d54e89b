"""`make demo`: a small shop on a private Postgres, in which things go wrong and nothing is lost."""
