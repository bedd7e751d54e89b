-- The minute in which a run started, also if its started_at was damaged by hand.
date_bin(interval '1 minute', least(greatest(started_at, timestamptz '1900-01-01 00:00:00Z'), clock.now), timestamptz '2000-01-01 00:00:00Z')
