-- Written in the transaction of the migration itself: applied and recorded are one event.
insert into {schema}.migration (version, name, checksum, min_code, applied_at)
values ({version}, '{name}', '{checksum}', {min_code}, coalesce({now}::timestamptz, statement_timestamp()));
