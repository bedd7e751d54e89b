-- The hour of UTC in which {time} lies, in any session's time zone.
date_bin(interval '1 hour', {time}, timestamptz '2000-01-01 00:00:00Z')
