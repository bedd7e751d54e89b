-- So that `told` is carried out.
from (select count(*) from told) as everyone
