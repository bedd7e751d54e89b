"""Every way in which users run a job, beside the bare thing and beside what other systems document."""
