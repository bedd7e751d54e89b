-- Write a checkpoint over one that is not done. One that is done stays as it is: sent again after a lost reply, nothing changes.
on conflict (job, name) do update
     set is_done = true, written_at = excluded.written_at, until = null, failures = excluded.failures,
         value = excluded.value, error = excluded.error
   where not c.is_done
