-- Written in the transaction of the migration itself: applied and recorded are one event.
insert into {schema}.migration (version, name, checksum, min_code)
values ({version}, '{name}', '{checksum}', {min_code});
