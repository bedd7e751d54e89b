-- So that `told` is carried out, beside another table.
, (select count(*) from told) as everyone
