-- Let runs of limit %(limit)s hand their permits on by themselves again: its lanes fit what it allows. Asked under the limit's lock.
-- Every lane says that others may wait, so that whoever leaves looks for them; keys that had a turn to come are knocked for.
-- Answers whether it is direct now.
with gone as (
  delete from {schema}.lane where limit_name = %(limit)s::text returning version, key, held, pass, due_at
), added as (
  insert into {schema}.lane (limit_name, key, held, awaited)
  select %(limit)s::text, key, held, true
    from (select distinct on (key) key, held from gone order by key, version desc) newest
   where held > 0
), knocked as (
  insert into {schema}.knock (limit_name, key, given)
  select distinct %(limit)s::text, key, 0 from gone where pass is not null or due_at is not null
), no_state as (
  delete from {schema}.limit_state where limit_name = %(limit)s::text
), changed as (
  update {schema}.limit_rule set is_direct = true where name = %(limit)s::text and may_be_direct and not is_direct
  returning name
)
select count(*) > 0 as is_direct from changed
