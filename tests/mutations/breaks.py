"""Breaks: small changes of the source, each of which takes a promise away, with the tests that must notice.

Each `old` stands exactly once in its file: `test_breaks.py` makes sure of that, and that the tests exist.
When you change a line that is named here, change the break too: it says what the line is there for.
"""

from typing import NamedTuple


class Break(NamedTuple):
    """`file` is below `src/holdfast`; a test is the part of its id below `tests/`."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


_CHORES = "acceptance/test_chores_of_a_worker.py::"
_LEADING = "acceptance/test_leadership.py::"
_LEASES = "acceptance/test_lost_leases.py::"
_ROWS = "acceptance/test_stored_jobs_under_new_code.py::"
_THREADS = "worker/test_thread_calls.py::"
_TAKEN = "worker/test_calls_taken_by_children.py::"
_WAKES = "acceptance/test_notifications_wake_workers.py::"
_WHOLE = "connections/test_whole_transaction.py::"
_FETCHER = "worker/test_fetcher.py::"
_STOPPING = "acceptance/test_stopping_in_an_outage.py::"
_BUSY = "connections/test_busy_connection_at_the_end.py::"
_TERMINATED = "acceptance/test_session_terminated_in_a_transaction.py::"
_OWN_CONNECTIONS = "acceptance/test_handler_transaction_on_own_connection.py::"
_DEFAULTS = "acceptance/test_defaults_of_a_worker.py::"
_GIVEN = "connections/test_returned_connections.py::"
_EXHAUSTED = "connections/test_exhausted_pool.py::"
_QUESTIONS = "connections/test_question_connections.py::"
_STEERED = "insights/test_worker_requests.py::"
_QUEUE = "connections/test_pool_queue.py::"
_RACES = "schedules/test_races.py::"
_SLEPT = _RACES + "test_a_leader_that_slept_between_reading_and_firing_fires_nothing_that_another_has_fired"
_REFUSED = (
    "schedules/test_declared_schedules.py::"
    "test_one_that_the_database_refuses_is_told_and_tried_again_while_the_others_go_on"
)
_CLOCK = "schedules/test_databases_clock.py::"

_FSCK = "insights/test_fsck.py::"
_GROUPS = "groups/test_groups.py::"
_COUNTED = "groups/test_counting.py::"
_COMMITS = "acceptance/test_outages_in_handler_transactions.py::"
_DOCTOR = "insights/test_doctor.py::"
_AUDITED = (
    "insights/test_everything_is_audited.py::"
    "test_every_verb_that_changes_something_leaves_an_entry_in_the_same_transaction"
)
_NOWHERE = "insights/test_secrets_appear_nowhere.py::"

_BATCHES = "acceptance/test_batches.py::"

_DECLARED = "api/test_limits_declared.py::"
_GATE = "storage/test_gate.py::"
_GATE_RACES = "storage/interleaving/test_gate.py::"
_GATE_VERBS = "storage/test_gate_and_verbs.py::"
_TRACED = "integrations/test_opentelemetry.py::"
_FIRED_LIMITED = "schedules/test_limited_jobs.py::"

BREAKS = (
    # Limits, as they are declared
    Break(
        "a worker is known to serve kinds whose limits are not",
        "worker/worker.py",
        "            await self._extension.declare(connections.calm)\n",
        "",
        (_DECLARED + "test_a_worker_declares_its_limits_before_it_is_known",),
    ),
    Break(
        "a deploy reverts what an operator has set of a limit",
        "domain/limits.py",
        "    return replace(declared, **_read(overrides)) if overrides else declared\n",
        "    return declared\n",
        ("storage/limits/test_limit_rules.py::test_a_deploy_does_not_revert_what_an_operator_has_set",),
    ),
    Break(
        "a secret can be read as the key of a limit",
        "domain/limit_keys.py",
        "    if is_fit and not is_secret and not has_unseen(key):\n",
        "    if is_fit and not has_unseen(key):\n",
        ("api/test_limits.py::test_a_secret_key_is_not_readable",),
    ),
    Break(
        "a job from SQL goes around the gate",
        "storage/migrations/0016_debounce.sql",
        "  elsif passed.limits is not null then\n",
        "  elsif false then\n",
        ("storage/limits/test_limits_in_sql.py::test_a_limited_job_from_sql_waits_at_the_gate",),
    ),
    Break(
        "jobs of a schedule's many scopes go around the gate",
        "storage/sql/plan_fire_alike.sql",
        "where h.is_limited) l on true",
        "where false) l on true",
        (_FIRED_LIMITED + "test_each_scope_fires_with_a_key_of_its_own",),
    ),
    Break(
        "a rerun goes around the gate",
        "insights/job_actions.py",
        "limits=tuple(had)",
        "limits=()",
        (_DECLARED + "test_a_rerun_has_the_limits_that_its_code_has_by_now",),
    ),
    Break(
        "a flow under hold=job waits for a child that needs its permit",
        "flows/flow.py",
        "            check_child(claimed.kind, claimed.row.args, call.kind, call.job.limits)\n",
        "            pass\n",
        (_DECLARED + "test_a_flow_that_would_wait_for_its_own_key_fails",),
    ),
    # Batch handlers
    Break(
        "a batch is claimed before it is full and before its wait is over",
        "worker/batch_claims.py",
        "        if not full and wait > 0:",
        "        if False:",
        (_BATCHES + "test_jobs_gather_unclaimed_while_others_run_and_cost_no_attempt",),
    ),
    Break(
        "every job of a batch takes a slot",
        "worker/batch_claims.py",
        "self._slots.take_for_batches(queue, len(batches))",
        "self._slots.take_for_batches(queue, len(jobs))",
        (_BATCHES + "test_a_batch_takes_one_slot_and_slots_are_shared_in_turns",),
    ),
    Break(
        "batches wait for as long as other jobs want the slots",
        "worker/slots.py",
        "            self._kept[queue] = 1",
        "            pass",
        (_BATCHES + "test_a_batch_takes_one_slot_and_slots_are_shared_in_turns",),
    ),
    Break(
        "a batch is committed although one of its jobs has lost its lease",
        "storage/sql/complete_all.sql",
        "case when lost.run is null then",
        "case when true then",
        (_BATCHES + "test_one_job_that_lost_its_lease_keeps_the_whole_transaction_from_being_written",),
    ),
    Break(
        "a job whose writes were rolled back with those of another counts as done",
        "worker/batch_outcome.py",
        "        case BatchFailed() if error is not batch.left_block:",
        "        case BatchFailed():",
        (_BATCHES + "test_a_part_that_fails_inside_the_block_rolls_it_back_and_costs_the_others_nothing",),
    ),
    Break(
        "one job that is cancelled stops the call for all of them",
        "worker/batch_run.py",
        "        if None in reasons or not reasons:",
        "        if not reasons:",
        (_BATCHES + "test_a_job_that_is_cancelled_ends_so_if_the_handler_has_looked",),
    ),
    # The gate: never more than a limit allows, nobody forgotten, no permit lost
    Break(
        "who comes while a permit is given back waits for ever",
        "storage/sql/admit_direct.sql",
        "         c.held >= c.cap\n         and (c.cap <> 1",
        "         false\n         and (c.cap <> 1",
        (_GATE_RACES + "test_who_came_after_a_settle_had_looked_is_not_forgotten",),
    ),
    Break(
        "an admitter counts a lane that a settle takes away",
        "storage/sql/admit_direct.sql",
        "where ctid = l.place for update skip locked) s on true",
        "where ctid = l.place) s on true",
        (_GATE_RACES + "test_an_admitter_does_not_wait_for_a_settle_that_takes_a_lane_along",),
    ),
    Break(
        "two admitters admit for the same permit",
        "storage/sql/admit_lock.sql",
        "pg_advisory_xact_lock(1213156421, hashtext('{schema_name}:' || %(limit)s::text))",
        "1",
        (_GATE_RACES + "test_of_two_admitters_the_second_counts_what_the_first_has_admitted",),
    ),
    Break(
        "who was locked when a permit came back waits for ever",
        "storage/sql/admit_direct.sql",
        "                       limit d.passed + 1) seen) > d.passed)\n",
        "                       limit d.passed + 1) seen) < 0)\n",
        (_GATE_RACES + "test_who_is_locked_while_a_permit_comes_back_gets_it_later",),
    ),
    Break(
        "a handler's work fails because others took what it would hand on to",
        "storage/sql_parts/handed_on.sql",
        "current_setting('transaction_isolation') in ('read committed', 'read uncommitted')",
        "true",
        (_GATE_RACES + "test_a_handlers_own_transaction_of_any_isolation_level_gives_its_permit_back",),
    ),
    Break(
        "a job whose time has come passes its gate without a permit",
        "storage/sql/promote.sql",
        "         t.deadline_at, j.limits, j.limit_keys, t.holds\n",
        "         t.deadline_at, null::text[] as limits, j.limit_keys, t.holds\n",
        (_GATE + "test_delayed_unique_and_mixed_batches_come_to_the_gate",),
    ),
    Break(
        "a retry in an hour keeps its key from all others",
        "storage/sql_parts/kept_permits.sql",
        "name = u.name and hold = 'job' offset 0",
        "name = u.name offset 0",
        (_GATE + "test_every_end_of_a_run_lets_the_next_of_its_key_begin",),
    ),
    Break(
        "the next of a key overtakes a job that keeps its permit",
        "storage/sql_parts/kept_permits.sql",
        "name = u.name and hold = 'job' offset 0",
        "name = u.name and false offset 0",
        (_GATE + "test_a_job_that_holds_its_permit_to_its_end_is_the_next_of_its_key",),
    ),
    Break(
        "a cancelled job keeps its permit",
        "storage/sql_parts/ended_without_run.sql",
        "{part given_back of=stopped}, ",
        "",
        (_GATE_VERBS + "test_every_verb_at_every_place_leaves_the_permits_right",),
    ),
    Break(
        "a job that is set aside keeps its permit",
        "storage/sql/park.sql",
        "{part given_back of=left_by}, ",
        "",
        (_GATE_VERBS + "test_every_verb_at_every_place_leaves_the_permits_right",),
    ),
    Break(
        "a permit is handed to a job that no worker can claim",
        "storage/sql_parts/handed_on.sql",
        "        and {part served_at_gate}\n",
        "",
        (_GATE + "test_handing_on_skips_who_cannot_be_claimed",),
    ),
    Break(
        "a job that no worker can claim is admitted",
        "storage/sql_parts/served_at_gate.sql",
        "and g.queue <> all((select queues from paused)::text[])",
        "",
        (_GATE + "test_who_cannot_be_claimed_holds_no_permit",),
    ),
    Break(
        "those for whom a worker has come wait until somebody else comes",
        "storage/sql/gate_sweep.sql",
        "   where l.pass is null and (l.held is null",
        "   where false and l.pass is null and (l.held is null",
        (_GATE + "test_a_sweep_knocks_for_those_whose_worker_has_come",),
    ),
    Break(
        "a limit hands permits on while a key holds more than it may",
        "storage/sql/limit_look.sql",
        "(l.held > a.allowed or l.pending is not null",
        "(l.pending is not null",
        (_GATE + "test_a_limit_becomes_direct_when_no_key_holds_more_than_it_may",),
    ),
    Break(
        "a permit is not given back when its run is settled",
        "storage/sql_parts/handed_on.sql",
        "   where (o.limit_name, o.key) not in (select limit_name, key from emptied)\n",
        "   where false\n",
        (_GATE + "test_a_limit_that_is_not_direct_gets_its_permits_back_by_knocks",),
    ),
    Break(
        "a closed limit admits",
        "storage/sql/admit_shared.sql",
        "case when rule.is_closed or s.open_until",
        "case when s.open_until",
        ("storage/limits/test_limit_rules.py::test_what_is_closed_lets_nothing_pass_until_it_is_opened",),
    ),
    Break(
        "a limit that is closed after a look admits once more",
        "storage/sql/admit_direct.sql",
        "              when r.closed_at is not null and (r.closed_until",
        "              when false and (r.closed_until",
        (_GATE_RACES + "test_a_limit_that_is_closed_after_the_leader_has_looked_lets_nobody_pass",),
    ),
    Break(
        "a key that is closed after a look is admitted once more",
        "storage/sql/admit_direct.sql",
        "select case when o.closed_at is not null and (o.closed_until",
        "select case when false and (o.closed_until",
        (_GATE_RACES + "test_a_limit_that_is_closed_after_the_leader_has_looked_lets_nobody_pass",),
    ),
    # What operators do leaves an entry in the audit
    Break(
        "a flow is resumed and nobody remembers who did it",
        "flows/flows.py",
        '        yield from self._remember("resume", f"flow {flow}", by, reason, answers[flow])',
        "        pass",
        (_AUDITED,),
    ),
    Break(
        "a schedule is deleted and nobody remembers who did it",
        "schedules/schedule_actions.py",
        '    yield from _remember(schema, "delete", name, by=by, reason=reason)',
        "    pass",
        (_AUDITED,),
    ),
    # Secrets
    Break(
        "what has the name of a secret is shown",
        "codec/shape.py",
        "*named(secret_names)",
        "",
        (_NOWHERE + "test_no_list_detail_explanation_or_group_shows_a_secret",),
    ),
    Break(
        "a search can tell a secret below a place",
        "domain/redaction.py",
        "return self.covers(path) or below.has_secrets_in(value)",
        "return self.covers(path)",
        (_NOWHERE + "test_a_search_for_a_secret_is_refused",),
    ),
    Break(
        "a unique key quotes a secret",
        "domain/uniqueness.py",
        "    if not any(secret in key for secret in secrets):",
        "    if True:",
        (_NOWHERE + "test_no_list_detail_explanation_or_group_shows_a_secret",),
    ),
    # Debounce and throttle
    Break(
        "a debounced job that comes while another runs is dropped",
        "storage/conflicts.py",
        "        while left:",
        "        while False:",
        ("storage/test_debounce.py::test_while_it_runs_a_new_job_takes_over_the_key",),
    ),
    Break(
        "old arguments run again after newer ones",
        "worker/attempt_runner.py",
        "        if claimed.row.newer is not None:",
        "        if False:",
        ("api/test_debounce.py::test_a_run_that_is_superseded_and_fails_is_not_tried_again",),
    ),
    Break(
        "a stream of enqueues puts a job off for ever, whatever its max_wait",
        "storage/sql/replace.sql",
        "else least(clock.now + a.debounce, b.since + a.max_wait) end as run_at",
        "else clock.now + a.debounce end as run_at",
        ("storage/test_debounce.py::test_no_burst_puts_a_job_off_for_longer_than_max_wait",),
    ),
    Break(
        "a throttle ends with its job",
        "storage/sql_parts/freed_and_forgotten.sql",
        "                 and (until is null or until <= (select now from clock))\n",
        "",
        ("storage/test_unique_for.py::test_others_are_dropped_for_that_long_also_after_its_end",),
    ),
    # Misspelt names
    Break(
        "jobs move to a queue that nobody knows",
        "insights/near_names.py",
        "    if not found.is_known:\n        raise",
        "    if False:\n        raise",
        ("insights/test_job_actions.py::test_jobs_are_not_moved_to_a_queue_that_nobody_knows",),
    ),
    Break(
        "a worker forgets what older code has called secret",
        "insights/kind_recorder.py",
        "            self._kinds[stored.name].signature.remember(Redaction.of(stored.secrets))",
        "            pass",
        (_NOWHERE + "test_a_newer_version_tells_no_secret_of_an_older_one",),
    ),
    Break(
        "an outage at a commit fails a job whose handler wraps the error",
        "postgres/borrowed/outage.py",
        "        return not isinstance(error, DataRefused)",
        "        return False",
        (_COMMITS + "test_nor_does_it_fail_a_job_whose_handler_raises_its_own_error_for_it",),
    ),
    # Middleware
    Break(
        "middleware may swallow the error of a write",
        "worker/outgoing_jobs.py",
        "        self._stack.__exit__(kind, error, trace)",
        "        return self._stack.__exit__(kind, error, trace)",
        ("api/test_middleware.py::test_an_error_of_the_write_is_never_swallowed",),
    ),
    Break(
        "a rerun forgets the headers",
        "insights/job_actions.py",
        "headers_of(detail.origin)),",
        "{}),",
        ("api/test_middleware.py::test_a_rerun_keeps_the_headers",),
    ),
    Break(
        "spans quote secrets",
        "worker/attempt_outcome.py",
        "    return from_error(error).without(secrets_of(claimed_of(context)))",
        "    return from_error(error)",
        (_TRACED + "test_a_secret_argument_is_in_no_span",),
    ),
    Break(
        "a run is in a trace of its own, unasked",
        "integrations/opentelemetry.py",
        "otel_context.Context() if self._new_trace else sent_in",
        "otel_context.Context()",
        (_TRACED + "test_enqueue_run_child_and_step_are_one_trace",),
    ),
    Break(
        "a run is not linked to its enqueue",
        "integrations/opentelemetry.py",
        "links=(Link(sender),) if sender.is_valid else ()",
        "links=()",
        (_TRACED + "test_with_new_traces_a_run_is_only_linked",),
    ),
    Break(
        "the context of an enqueue does not travel with its job",
        "integrations/opentelemetry.py",
        "        job.headers |= carrier",
        "        pass",
        (_TRACED + "test_enqueue_run_child_and_step_are_one_trace",),
    ),
    Break(
        "a number in SQL hides the headers of a job",
        "domain/origin.py",
        "json.loads(origin, parse_int=_whole)",
        "{}",
        ("api/test_middleware.py::test_headers_are_read_beside_a_number_that_python_cannot_hold",),
    ),
    # Examining a system
    Break(
        "doctor looks at no part after one that fails",
        "insights/doctor.py",
        "    except (HoldfastError, psycopg.Error) as error:",
        "    except ZeroDivisionError as error:",
        (_DOCTOR + "test_what_a_role_may_not_look_at_is_said_and_the_rest_is_looked_at",),
    ),
    Break(
        "doctor overlooks prepared transactions",
        "storage/sql/doctor_sessions.sql",
        " where p.database = current_database()",
        " where p.database = ''",
        (_DOCTOR + "test_a_prepared_transaction_is_named_with_how_to_end_it",),
    ),
    # Threads
    Break(
        "calls that wait for short ones are never looked at",
        "worker/callers.py",
        "        if self._threads.look_in():",
        "        if self._threads._waiting:",
        (_THREADS + "test_functions_that_block_run_side_by_side_in_as_many_threads_as_there_are_slots",),
    ),
    Break(
        "ends of short calls wait for the calls that their threads run next",
        "worker/callers.py",
        "        self._answers.answer()\n",
        "",
        (_THREADS + "test_an_end_that_a_thread_kept_to_itself_is_looked_for",),
    ),
    # Child processes
    Break(
        "a call that a dead child took without a word is lost",
        "worker/processes/crew.py",
        "            if call.stop is None:\n                self.queue.put(call.packet)",
        "            if call.stop is None:\n                pass",
        (_TAKEN + "test_a_call_that_a_child_took_and_never_told_of_goes_to_another",),
    ),
    Break(
        "a call goes to another child while one may still have it",
        "worker/processes/crew.py",
        "self._missing[number] = set(self.children)",
        "self._missing[number] = set()",
        (_TAKEN + "test_a_call_that_its_child_tells_of_late_is_not_given_to_another",),
    ),
    Break(
        "a call that was not begun dies with its child",
        "worker/processes/crew.py",
        "if call.has_begun or call.stop is not None or child.taken == 1:",
        "if True:",
        (_TAKEN + "test_a_call_that_its_child_took_and_did_not_begin_costs_nothing",),
    ),
    Break(
        "a child begins the next call before it tells the end of the one before",
        "worker/processes/child_main.py",
        "        self._link.send(*told, Taken(number, begins))\n",
        "        self._link.send(Taken(number, begins))\n        self._told = told\n",
        (_TAKEN + "test_a_call_that_kills_its_child_takes_no_answer_along",),
    ),
    # Checking and mending the tables
    Break(
        "fsck believes its first look",
        "insights/fsck.py",
        "_LOOKS_AGAIN = 2",
        "_LOOKS_AGAIN = 0",
        (_FSCK + "test_a_job_that_moved_between_two_looks_is_not_damaged",),
    ),
    Break(
        "fsck keeps the oldest of two runs",
        "storage/sql/fsck_keep_one_place.sql",
        "order by home, run desc, segment, place",
        "order by home, run, segment, place",
        (_FSCK + "test_of_two_leases_the_newest_run_stays",),
    ),
    Break(
        "fsck puts a lost job back and does not let it run",
        "storage/fsck.py",
        "        yield from reschedule(schema, placed, delay=timedelta())",
        "        pass",
        (_FSCK + "test_what_a_dump_missed_runs_again_beside_the_workers",),
    ),
    # Chores of a running worker
    Break(
        "a worker does not prune",
        "leader_chores.py",
        "    PRUNE,  #",
        "    #",
        (_CHORES + "test_a_worker_prunes_until_nothing_is_left_and_comes_back_for_more",),
    ),
    Break(
        "a worker does not fold failures",
        "leader_chores.py",
        "    FOLD_FAILURES,  #",
        "    #",
        ("insights/test_failures.py::test_the_leader_counts_failures_by_itself",),
    ),
    Break(
        "log lines of another run are kept with this one",
        "worker/processes/child_process.py",
        'if self.call is not None and record.get("run") == self.call.run:',
        "if self.call is not None:",
        ("worker/test_processes.py::test_a_line_of_a_thread_that_a_run_left_behind_is_not_that_of_the_next",),
    ),
    Break(
        "a job is settled before its log lines are written",
        "worker/log_keeper.py",
        "            await waiting.written",
        "            pass",
        ("insights/test_job_logs.py::test_whoever_sees_the_end_of_a_job_can_read_its_lines",),
    ),
    Break(
        "log lines show secrets",
        "worker/log_keeper.py",
        "message=scrubbed(line.message, secrets)",
        "message=line.message",
        ("insights/test_job_logs.py::test_secrets_are_masked_in_lines",),
    ),
    Break(
        "a secret that is a default is shown",
        "worker/attempt_outcome.py",
        "claimed.kind.signature.secrets_taken(",
        "claimed.kind.signature.secrets_in(",
        ("insights/test_job_logs.py::test_defaults_of_secret_parameters_are_masked_in_lines_and_errors",),
    ),
    Break(
        "log lines outlive their job",
        "storage/sql_parts/deleted_for_good.sql",
        "delete from {schema}.run_log where job = any(array(select job from old))",
        "delete from {schema}.run_log where job = -1",
        ("insights/test_job_logs.py::test_lines_go_with_their_job",),
    ),
    Break(
        "an end waits for a log that cannot be written",
        "worker/log_keeper.py",
        "self._patience = self._loop.call_later(_END_SECONDS, self._lose_patience)",
        "pass",
        ("insights/test_job_logs.py::test_no_end_waits_for_long_for_a_log_that_is_locked",),
    ),
    Break(
        "a dead letter does not know its group",
        "storage/sql/settle.sql",
        "select job, run, clock.now, asked.fingerprints[place]",
        "select job, run, clock.now, null",
        ("insights/test_failures.py::test_retrying_a_group_runs_its_jobs_again",),
    ),
    Break(
        "new jobs are counted although a transaction that has ids of theirs is open",
        "worker/chores/enqueue_counter.py",
        "        if self._range.open:",
        "        if False:",
        ("worker/test_enqueue_counter.py::test_a_job_that_commits_late_is_counted_once",),
    ),
    Break(
        "a transaction that was prepared is taken for one that has ended",
        "worker/chores/enqueue_counter.py",
        "now_open & self._range.open | _prepared(now_open)",
        "now_open & self._range.open",
        ("worker/test_enqueue_counter.py::test_a_job_that_was_prepared_before_a_restart_is_counted_once",),
    ),
    Break(
        "the wait is counted to the end of the run, not to its start",
        "storage/sql_parts/lengths_of_run.sql",
        "tstzrange_subdiff(started_at, ready_at)",
        "tstzrange_subdiff(clock.now, ready_at)",
        ("storage/test_statistics.py::test_percentiles_are_within_a_tenth_of_the_ledger",),
    ),
    Break(
        "hours do not get what minutes get",
        "storage/sql/fold.sql",
        "   where is_hour\n",
        "   where is_hour and false\n",
        ("storage/test_statistics.py::test_hours_hold_the_same_as_their_minutes",),
    ),
    Break(
        "the pruner does not loop",
        "worker/chores/job_pruner.py",
        "return Did(done.moved, is_more=is_more)",
        "return Did(done.moved)",
        (_CHORES + "test_a_worker_prunes_until_nothing_is_left_and_comes_back_for_more",),
    ),
    Break(
        "the pruner is a hundred times slower",
        "worker/chores/job_pruner.py",
        "    shortest=5,\n    longest=60,\n",
        "    shortest=500,\n    longest=6000,\n",
        (_CHORES + "test_a_worker_prunes_until_nothing_is_left_and_comes_back_for_more",),
    ),
    Break(
        "a login that is refused late counts as a new outage",
        "postgres/availability.py",
        "is_overtaken = tried_at is not None and tried_at <= self._last_success",
        "is_overtaken = False",
        (_EXHAUSTED + "test_an_attempt_that_began_before_the_last_success_is_no_new_loss",),
    ),
    Break(
        "a quiet worker goes on claiming",
        "worker/fetcher.py",
        "or self._is_resting or self._is_quiet or",
        "or self._is_resting or",
        (_STEERED + "test_a_quiet_worker_keeps_what_it_runs_and_begins_nothing_until_it_is_resumed",),
    ),
    Break(
        "a worker forgets what was asked of it when it registers again",
        "storage/sql/register.sql",
        "   where r.worker = %(previous)s::bigint\n",
        "   where false and r.worker = %(previous)s::bigint\n",
        (_STEERED + "test_a_worker_that_lost_its_lease_stays_quiet_under_its_new_id",),
    ),
    Break(
        "more slots do not bring more threads",
        "worker/slots.py",
        "        self._on_more(max(0, number - self._limits[queue]))\n",
        "",
        (_STEERED + "test_slots_grow_and_shrink_while_a_worker_runs",),
    ),
    Break(
        "an error that nobody foresaw ends the questions of a live view",
        "cli/top_screen.py",
        "            except Exception as error:  # noqa: BLE001  # shown, then it goes on",
        "            except HoldfastError as error:",
        ("cli/test_top.py::test_whatever_error_a_question_meets_is_shown_and_it_is_asked_again",),
    ),
    Break(
        "a supervisor replaces a process that an operator has stopped",
        "cli/supervisor.py",
        "            if place.was_asked_to_stop:\n",
        "            if False:\n",
        (
            "cli/test_worker_requests_command.py::test_a_supervisor_replaces_no_process_that_an_operator_has_stopped",
        ),
    ),
    Break(
        "a reloader replaces a worker that an operator has stopped",
        "cli/reloader.py",
        "        if place.was_asked_to_stop:\n            return code\n",
        "",
        ("cli/test_dev_command.py::test_a_worker_that_an_operator_stops_ends_it_and_is_not_replaced",),
    ),
    Break(
        "operators' questions have no bound",
        "question_connections.py",
        'options, {"statement_timeout": str(limit), "jit": "off"}',
        'options, {"jit": "off"}',
        (_QUESTIONS + "test_a_question_that_takes_too_long_says_what_to_do",),
    ),
    Break(
        "operators' questions take the connections of what enqueues",
        "app_connections.py",
        "        return await self._questions.hold(conversation)\n",
        "        return await self.hold(conversation, None)\n",
        (_QUESTIONS + "test_questions_that_wait_keep_nothing_from_being_enqueued",),
    ),
    Break(
        "a search goes on for longer than its time",
        "insights/job_list.py",
        " or took >= _PATIENCE * 0.8:",
        ":",
        (
            "insights/test_jobs_list.py::test_a_page_that_finds_little_looks_no_longer_than_its_time_and_the_next_goes_on",
        ),
    ),
    Break(
        "a narrowed prune gives up where a page holds nothing to delete",
        "storage/sql/prune_chosen.sql",
        "       f.is_full or p.is_full as is_more\n",
        "       f.is_full as is_more\n",
        ("api/test_prune.py::test_few_among_many_are_found_page_by_page",),
    ),
    Break(
        "prune ignores the states that it is narrowed to",
        "storage/sql/prune_chosen.sql",
        "(%(states)s::text[] is null or outcome::text = any(%(states)s::text[]))",
        "(%(states)s::text[] is null or true)",
        ("api/test_prune.py::test_it_is_narrowed_to_states_and_to_an_age",),
    ),
    Break(
        "a worker does not time overdue runs out",
        "leader_chores.py",
        "    ENFORCE_TIMEOUTS,  #",
        "    #",
        (_CHORES + "test_a_leader_takes_away_what_its_worker_did_not_time_out",),
    ),
    Break(
        "overdue runs have no grace",
        "worker/chores/timeout_enforcer.py",
        "_GRACE = timedelta(seconds=30)",
        "_GRACE = timedelta()",
        (_CHORES + "test_a_run_within_its_timeout_is_left_alone",),
    ),
    Break(
        "the promoter passes no bound",
        "worker/chores/job_promoter.py",
        "promote(self._schema, since=since, limit=_PROMOTED)",
        "promote(self._schema, since=since, limit=1_000_000)",
        (_CHORES + "test_a_worker_promotes_a_flood_in_bounded_passes",),
    ),
    Break(
        "a worker does not expire what is late",
        "leader_chores.py",
        "    EXPIRE,  #",
        "    #",
        (_CHORES + "test_a_worker_expires_what_waits_past_its_deadline",),
    ),
    Break(
        "a worker does not fold what was counted",
        "leader_chores.py",
        "    FOLD_COUNTERS,  #",
        "    #",
        (_CHORES + "test_a_worker_folds_what_was_counted",),
    ),
    Break(
        "a worker does not turn the ring",
        "leader_chores.py",
        "    TURN_RING,  #",
        "    #",
        (_CHORES + "test_a_worker_turns_the_ring_and_gives_space_back",),
    ),
    Break(
        "expired jobs are kept by default, not as told",
        "worker/chores/job_expirer.py",
        "expire(self._schema, since=since, retention=self._retention)",
        "expire(self._schema, since=since)",
        (_DEFAULTS + "test_finished_jobs_are_kept_for_as_long_as_the_worker_was_told",),
    ),
    # Leadership
    Break(
        "is_leader stays true",
        "worker/chores/leader.py",
        "            self.is_leader = False\n            self._emitter.emit(",
        "            self._emitter.emit(",
        (_LEADING + "test_a_worker_says_when_it_leads_when_it_does_no_longer_and_when_it_does_again",),
    ),
    Break(
        "a leader counts its lease from the reply",
        "worker/chores/leader.py",
        "return sent_at + self._lease.total_seconds()",
        "return monotonic() + self._lease.total_seconds()",
        (_LEADING + "test_a_leader_counts_its_lease_from_before_it_asked",),
    ),
    Break(
        "a renewal of leadership may hang past the lease",
        "worker/chores/leader.py",
        "await self._try(max(until - lease / 10 - monotonic(), 0.05))",
        "await self._try(lease)",
        (_LEADING + "test_a_leader_that_cannot_renew_stops_its_chores_before_its_lease_ends",),
    ),
    Break(
        "no worker hears that the leader has left",
        "worker/notification_wiring.py",
        "            leader.is_wanted()\n",
        "            pass\n",
        (_LEADING + "test_a_worker_that_waits_to_lead_hears_that_the_place_is_vacant",),
    ),
    Break(
        "a leader that stops keeps its place",
        "worker/chores/leader.py",
        "await through_cancellation(self._step_down())",
        "pass",
        (_LEADING + "test_a_worker_that_waits_to_lead_hears_that_the_place_is_vacant",),
    ),
    Break(
        "a worker that may not lead does",
        "worker/service_wiring.py",
        "*([leader] if self._options.is_leading_allowed else []),",
        "leader,",
        (_LEADING + "test_a_worker_that_may_not_lead_does_not",),
    ),
    # Leases
    Break(
        "a lease that is taken away does not cancel its handler",
        "worker/service_wiring.py",
        "                attempts.lose(news.missing)\n",
        "",
        (_LEASES + "test_a_run_that_is_taken_away_is_cancelled_and_the_other_runs_go_on",),
    ),
    Break(
        "a worker counts its lease from the reply",
        "worker/lease_keeper.py",
        "self._lease.believed_until = self._believed_from(sent_at)",
        "self._lease.believed_until = self._believed_from(monotonic())",
        (_LEASES + "test_a_lease_is_counted_from_before_its_renewal_was_sent",),
    ),
    Break(
        "a run that could not be settled is not said to be done again",
        "telemetry/log.py",
        "could not {event.doing}{then}",
        "could not {event.doing}",
        (_LEASES + "test_a_run_that_ended_but_could_not_be_settled_is_said_to_be_done_again",),
    ),
    Break(
        "what a worker does not know of is not given back",
        "worker/lease_keeper.py",
        "                self._give_back(worker, news)\n",
        "",
        (_WAKES + "test_a_run_that_is_given_back_is_claimed_again_by_the_same_worker_at_once",),
    ),
    Break(
        "no worker looks for what was given back",
        "worker/service_wiring.py",
        "on_released=fetcher.wake,",
        "on_released=lambda: None,",
        (_WAKES + "test_a_run_that_is_given_back_is_claimed_again_by_the_same_worker_at_once",),
    ),
    Break(
        "a cancel request is not heard before the next beat",
        "worker/notification_wiring.py",
        "    listener.subscribe(Channel.CANCEL.in_schema(schema), cancelled)\n",
        "",
        ("acceptance/test_cancel.py::test_a_cancel_request_reaches_a_running_coroutine_by_notification",),
    ),
    Break(
        "a cancel request is heard and not handed on",
        "worker/service_wiring.py",
        "                attempts.cancel(news.to_cancel)\n",
        "",
        ("acceptance/test_cancel.py::test_a_cancel_request_reaches_a_running_coroutine_by_notification",),
    ),
    # Rows and code
    Break(
        "the code's max_attempts counts, not the row's",
        "worker/attempt_runner.py",
        "Run(row.attempt, row.max_attempts, from_json(row.backoff))",
        "Run(row.attempt, claimed.kind.policy.max_attempts, from_json(row.backoff))",
        (_ROWS + "test_the_limit_of_attempts_is_the_one_that_was_stored_with_the_job",),
    ),
    Break(
        "a rescue ignores the limit of attempts",
        "storage/chores.py",
        "return Run(lease.attempt, lease.max_attempts,",
        "return Run(lease.attempt, 99,",
        (_ROWS + "test_a_run_that_is_lost_is_tried_as_often_as_its_row_says",),
    ),
    Break(
        "a bad row drops the rest of its batch",
        "worker/attempts.py",
        "            claimed = self.runs[row.run] = ClaimedRun(lease.worker",
        "            try:\n                kind.signature.decode(row.args)\n"
        "            except Undecodable:\n                break\n"
        "            claimed = self.runs[row.run] = ClaimedRun(lease.worker",
        (_ROWS + "test_a_row_that_cannot_be_read_holds_up_no_other_row_of_its_claim",),
    ),
    # Wake-ups
    Break(
        "new jobs are found by polling only",
        "worker/notification_wiring.py",
        "    listener.subscribe(Channel.READY.in_schema(schema), ready)\n",
        "",
        (_WAKES + "test_a_job_that_another_program_wrote_in_sql_wakes_a_worker_that_sleeps",),
    ),
    Break(
        "the leader does not hear of an earlier due time",
        "worker/chores/job_promoter.py",
        "woken_by=(Channel.DUE, ",
        "woken_by=(",
        (_WAKES + "test_a_job_that_is_due_sooner_wakes_a_leader_that_sleeps",),
    ),
    Break(
        "the planner does not hear of a new schedule",
        "schedules/planner.py",
        "    woken_by=(Channel.PLAN,),\n",
        "",
        (_WAKES + "test_a_schedule_that_is_new_wakes_the_planner",),
    ),
    Break(
        "what was parked does not come back",
        "leader_chores.py",
        "    UNPARK,  #",
        "    #",
        (_WAKES + "test_a_worker_gets_what_was_parked_for_want_of_it",),
    ),
    Break(
        "the listener waits for up to ten minutes",
        "postgres/listener.py",
        "cap=timedelta(seconds=5)",
        "cap=timedelta(minutes=10)",
        ("listener/test_losing_the_connection.py::test_the_waits_between_tries_never_exceed_five_seconds",),
    ),
    # Connections
    Break(
        "a caller that came last is served first",
        "postgres/pool_core.py",
        "self._waiters.popitem(last=False)",
        "self._waiters.popitem(last=True)",
        (
            _QUEUE + "test_callers_are_served_in_the_order_in_which_they_came",
            _QUEUE + "test_threads_are_served_in_the_order_in_which_they_came",
        ),
    ),
    Break(
        "a connection is lent in the middle of a transaction",
        "postgres/pool_core.py",
        "is_ready = connection.pgconn.transaction_status == TransactionStatus.IDLE",
        "is_ready = not connection.closed",
        (_QUEUE + "test_what_a_caller_left_in_the_middle_is_closed_and_replaced",),
    ),
    Break(
        "a cancelled caller keeps the connection that it is handed",
        "postgres/pool.py",
        "if connection := self.core.leave_queue(waiter):",
        "if (connection := self.core.leave_queue(waiter)) and not self:",
        (_GIVEN + "test_users_cancelled_at_any_time_leave_every_connection_to_the_others",),
    ),
    Break(
        "a cancellation is forgotten when the connection is cut",
        "postgres/pool.py",
        "self._task.cancelling() > self._before",
        "self._task.cancelling() > self._before + 1",
        ("connections/test_cancellation.py::test_a_cancellation_is_not_lost_when_the_connection_is",),
    ),
    # Retention and numbers
    Break(
        "the settler keeps jobs by default, not as told",
        "worker/service_wiring.py",
        "Settler(hot, self._schema, self._options.retention, wake",
        "Settler(hot, self._schema, type(self._options.retention)(), wake",
        (_DEFAULTS + "test_finished_jobs_are_kept_for_as_long_as_the_worker_was_told",),
    ),
    Break(
        "a handler's own commit keeps jobs by default, not as told",
        "worker/completion.py",
        "complete_one_or_fail(self._schema, self._run(), retention=self._retention)",
        "complete_one_or_fail(self._schema, self._run(), retention=type(self._retention)())",
        (_DEFAULTS + "test_finished_jobs_are_kept_for_as_long_as_the_worker_was_told",),
    ),
    Break(
        "what succeeded is kept for two days",
        "domain/retention.py",
        "succeeded: timedelta = timedelta(hours=24)",
        "succeeded: timedelta = timedelta(hours=48)",
        (_DEFAULTS + "test_finished_jobs_are_kept_for_a_day_three_days_or_thirty",),
    ),
    Break(
        "a worker's lease lasts twice as long",
        "worker/lease_keeper.py",
        "lease: timedelta = timedelta(seconds=30)",
        "lease: timedelta = timedelta(seconds=60)",
        (_DEFAULTS + "test_leases_last_half_a_minute_for_a_worker_and_ten_seconds_for_the_leader",),
    ),
    # Schedules
    Break(
        "a plan is fired without its compare-and-swap",
        "storage/sql/plan_fire.sql",
        "        and last_plan_at is not distinct from a.was_last\n",
        "",
        (
            _RACES
            + "test_a_leader_that_slept_between_reading_and_firing_fires_nothing_that_another_has_fired",
        ),
    ),
    Break(
        "a plan that is written already fires again",
        "storage/sql/plan_fire.sql",
        "   cross join lateral generate_series(t.first, t.last) as n\n"
        "  on conflict on constraint plan_identity do nothing\n",
        "   cross join lateral generate_series(t.first, t.last) as n\n"
        "  on conflict on constraint plan_identity do update set count = excluded.count\n",
        (_RACES + "test_a_plan_that_was_backfilled_meanwhile_does_not_fire_again",),
    ),
    Break(
        "the planner goes by the clock of its process",
        "schedules/planner.py",
        "decide_all(due_rows, rows[0].now.astimezone(UTC))",
        "decide_all(due_rows, datetime.now(UTC))",
        (_CLOCK + "test_what_is_due_is_decided_by_the_clock_of_the_database",),
    ),
    Break(
        "without the database's clock the planner goes on",
        "schedules/planner.py",
        "        wait = await self._database.run_one(next_look(self._schema))\n"
        "        if wait is None or wait:",
        "        try:\n            wait = await self._database.run_one(next_look(self._schema))\n"
        "        except Exception:\n            return Did()\n        if wait is None or wait:",
        (_CLOCK + "test_while_the_database_tells_no_time_a_worker_plans_nothing",),
    ),
    Break(
        "a declaration that the database refuses takes the others along",
        "schedules/declarer.py",
        '                await self._tell(one, f"{type(error).__name__}: {error}")\n            else:',
        "                raise\n            else:",
        (_REFUSED,),
    ),
    Break(
        "a source of scopes that fails takes the other schedules along",
        "schedules/declarer.py",
        '            await self._tell(one, f"{type(error).__name__}: {error}")\n            return False',
        "            raise",
        ("schedules/test_declared_schedules.py::test_a_source_that_fails_leaves_the_scopes_that_were_known",),
    ),
    # The engine
    Break(
        "a claim goes by id and not by priority",
        "storage/sql/claim.sql",
        "   order by priority, job\n   limit",
        "   order by job\n   limit",
        ("storage/test_claim.py",),
    ),
    Break(
        "a lost worker goes on claiming",
        "storage/sql/claim.sql",
        "   where id = %(worker)s::bigint and lost_at is null\n",
        "   where id = %(worker)s::bigint\n",
        ("storage/test_workers_and_leader.py", "storage/test_claim.py"),
    ),
    Break(
        "a paused queue is claimed from",
        "storage/sql/claim.sql",
        "            where name = %(queue)s::text and paused_at is not null\n",
        "            where name = %(queue)s::text and paused_at is null and paused_at is not null\n",
        ("storage/test_operators.py", "storage/test_claim.py"),
    ),
    Break(
        "a job past its deadline is claimed",
        "storage/sql/claim.sql",
        "     and (deadline_at is null or deadline_at > (select now from clock))\n",
        "",
        ("storage/test_promote_expire.py", "storage/test_claim.py"),
    ),
    Break(
        "a settle does not ask whose run it is",
        "storage/sql_parts/fence.sql",
        "     and run = (select runs from asked)[width_bucket(run, (select runs from asked))]\n",
        "",
        ("storage/test_settle.py",),
    ),
    Break(
        "a lost worker renews its lease",
        "storage/sql/renew.sql",
        "where w.id = %(worker)s::bigint and w.lost_at is null",
        "where w.id = %(worker)s::bigint",
        ("storage/test_workers_and_leader.py",),
    ),
    Break(
        "leadership is taken from a leader that renews",
        "storage/sql/lead.sql",
        " where l.worker = excluded.worker or l.expires_at <=",
        " where true or l.expires_at <=",
        ("storage/test_workers_and_leader.py",),
    ),
    Break(
        "the term stays when the leader changes",
        "storage/sql/lead.sql",
        "term = least(l.term, 9223372036854775806) + (l.worker <> excluded.worker)::int,",
        "term = l.term,",
        ("storage/test_workers_and_leader.py",),
    ),
    Break(
        "a key that is held is given to the next job",
        "storage/sql_parts/job_that_keeps_the_key.sql",
        "then excluded.job else held.job end",
        "then excluded.job else excluded.job end",
        ("storage/test_unique.py",),
    ),
    Break(
        "pruning takes what was to be kept for longer",
        "storage/sql/prune.sql",
        "   where is_final and keep_until <= (select",
        "   where is_final and keep_until - interval '12 hours' <= (select",
        ("storage/test_retention.py",),
    ),
    Break(
        "a run is taken away before its timeout",
        "storage/sql/overdue_leases.sql",
        "where timeout_at < coalesce(",
        "where started_at < coalesce(",
        ("storage/test_rescue.py",),
    ),
    Break(
        "on_lost is not asked",
        "storage/chores.py",
        'from_json(lease.backoff), lease.on_lost or "retry")',
        'from_json(lease.backoff), "retry")',
        ("storage/test_rescue.py",),
    ),
    # Attempts, slots, stopping
    Break(
        "a worker takes all of its slots at once",
        "worker/slots.py",
        "        return min(self.free(queue), most, self.half(queue))",
        "        return most",
        ("worker/test_fetcher.py", "acceptance/test_signals.py"),
    ),
    Break(
        "a stop does not wait for what runs",
        "worker/worker.py",
        "await self.stopping.unless_hurried(attempts.ended())",
        "pass",
        ("acceptance/test_signals.py::test_a_worker_told_to_stop_finishes_what_it_runs_and_claims_no_more",),
    ),
    Break(
        "a second signal waits for the grace",
        "stop_signals.py",
        "        self._worker.stopping.hurried.set()\n",
        "        pass\n",
        ("acceptance/test_signals.py::test_a_second_signal_does_not_wait_for_the_grace",),
    ),
    Break(
        "the poll is left out",
        "worker/fetcher.py",
        "                    await self._look()\n",
        "                    pass\n",
        (
            "acceptance/test_worker_inside_a_program.py::test_a_job_without_a_notification_is_found_by_polling",
        ),
    ),
    Break(
        "a chore that fails ends all of them",
        "worker/chores/chore_loop.py",
        "await self._alarm.sleep(min(_AFTER_FAILURE, self._longest))\n                continue",
        "raise",
        (
            "acceptance/test_worker_inside_a_program.py::test_a_chore_that_fails_stops_neither_itself_nor_the_others",
        ),
    ),
    Break(
        "a handler's own commit is not fenced",
        "storage/completions.py",
        "else ('{_REFUSAL}, noticed at ' || statement_timestamp())::int::text",
        "else 'settled'",
        (_LEASES + "test_a_handlers_transaction_is_rolled_back_when_its_run_was_taken_away",),
    ),
    Break(
        "the commit of a connection that a handler passes is not fenced",
        "worker/completion.py",
        '        if answers != ["settled"]:\n            raise self._lost("commit")',
        "        pass",
        (_OWN_CONNECTIONS + "test_a_run_that_has_lost_its_lease_commits_nothing",),
    ),
    Break(
        "a commit whose reply was lost with the lease is not asked for",
        "worker/attempt_reporter.py",
        "        if end is None:\n            self._taken_away",
        "        if True:\n            self._taken_away",
        (
            (
                "acceptance/test_uncertain_commits.py::"
                "test_a_commit_that_took_effect_is_a_success_though_reply_and_lease_are_lost"
            ),
        ),
    ),
    Break(
        "an outage that a handler's own statement meets in its block follows `on`",
        "worker/attempt_outcome.py",
        "is_retryable = claimed.met_outage or is_outage(error)",
        "is_retryable = is_outage(error)",
        (_TERMINATED + "test_a_session_that_was_terminated_inside_a_block_is_tried_again",),
    ),
    Break(
        "a handler's other thread goes on using the connection of an ended block",
        "postgres/thread_transactions.py",
        "            if self._is_left:\n                raise psycopg.OperationalError(LEFT)",
        "            pass",
        (_BUSY + "test_another_thread_finds_the_connection_of_an_ended_block_useless",),
    ),
    Break(
        "a handler's other task goes on using the connection of an ended block",
        "postgres/lent_connection.py",
        "        if self._has_ended:\n            raise psycopg.OperationalError(LEFT)\n",
        "",
        (_WHOLE + "test_what_outlives_its_block_cannot_use_the_connection_that_another_block_has",),
    ),
    Break(
        "free slots wait for others although the worker has time",
        "worker/claim_gathering.py",
        "        if is_full and self._is_busy():",
        "        if is_full:",
        (_FETCHER + "test_a_busy_worker_with_a_backlog_claims_for_half_of_its_slots_at_once",),
    ),
    Break(
        "free slots wait for others for as long as those take",
        "worker/claim_gathering.py",
        "            self._claim()\n",
        "            pass\n",
        (_FETCHER + "test_slots_that_gather_are_claimed_for_in_time_although_the_others_stay_taken",),
    ),
    Break(
        "a worker that stops in an outage does not say what it leaves",
        "worker/worker.py",
        "                self._leave(held, services.attempts.runs)\n",
        "                pass\n",
        (_STOPPING + "test_the_jobs_whose_ends_could_not_be_written_are_named_and_rescued",),
    ),
    Break(
        "a stream that was left open holds up the end of its block for ever",
        "postgres/whole_transaction.py",
        "        return libpq.transaction_status != TransactionStatus.ACTIVE",
        "        return True",
        (_BUSY + "test_what_was_left_open_lets_nothing_be_committed_and_holds_nothing_up",),
    ),
    Break(
        "a block runs at the usual isolation level, whichever it names",
        "postgres/session_settings.py",
        'begin = "begin" if isolation is None else f"begin isolation level {isolation}"',
        'begin = "begin"',
        (
            (
                "worker/test_isolation_of_a_transaction.py::"
                "test_the_block_runs_at_the_level_that_it_names_and_the_next_at_the_usual_one"
            ),
        ),
    ),
    # What callers write, and what they read
    Break(
        "a connection of a block is lent to other tasks and threads",
        "producer/ambient_connection.py",
        "if self._place != _here():",
        "if False:",
        (
            "api/test_ambient_connection.py::test_a_task_that_is_started_inside_is_refused_also_after_the_block",
            (
                "api/test_ambient_connection.py::"
                "test_a_thread_and_a_callback_that_have_the_blocks_variables_are_refused"
            ),
        ),
    ),
    Break(
        "an app that requires a connection writes without one",
        "job_writer.py",
        "        if self._is_conn_required:\n",
        "        if False:\n",
        (
            (
                "api/test_ambient_connection.py::"
                "test_an_app_that_requires_a_connection_writes_nothing_without_one"
            ),
        ),
    ),
    Break(
        "a message writes lines of its own into the log",
        "telemetry/log_lines.py",
        "    return _encodable(_TREACHEROUS.sub(",
        '    return _encodable(re.compile(r"(?!)").sub(',
        ("worker/test_log_lines.py::test_no_message_passes_for_a_line_of_the_log",),
    ),
    Break(
        "jobs that take their time are claimed beyond the standard number",
        "worker/slots.py",
        "have_ended = queue in self._was_full and ",
        "have_ended = ",
        (
            (
                "worker/test_slots.py::"
                "test_jobs_that_take_their_time_are_claimed_up_to_the_number_and_no_further"
            ),
        ),
    ),
    Break(
        "a number of slots that was set is exceeded",
        "worker/slots.py",
        "        if queue in self._elastic:",
        "        if queue:",
        ("worker/test_slots.py::test_a_number_that_was_set_holds_whatever_jobs_do",),
    ),
    Break(
        "lines that wait to be written are lost when a worker ends",
        "telemetry/batching_handler.py",
        "and self._writer.close()",
        "and self._writer is not None",
        ("cli/test_worker_log.py::test_an_error_that_ends_the_process_comes_behind_every_line",),
    ),
    Break(
        "lines that wait to be written are lost with the third signal",
        "stop_signals.py",
        "            write_out()\n            os._exit(1)",
        "            os._exit(1)",
        ("cli/test_worker_log.py::test_a_third_signal_leaves_no_line_behind",),
    ),
    Break(
        "a forked process writes nothing to the log",
        "telemetry/batching_handler.py",
        ", after_in_child=_in_fork",
        "",
        ("cli/test_worker_log.py::test_the_lines_of_a_job_come_in_the_order_in_which_they_were_logged",),
    ),
    Break(
        "lines that nobody reads fill the memory",
        "telemetry/line_writer.py",
        "        if waiting > (",
        "        if waiting < 0 * (",
        ("worker/test_line_writer.py::test_a_reader_that_stops_reading_costs_lines_and_is_told_how_many",),
    ),
    Break(
        "a second Ctrl-C ends a script in the middle of its worker",
        "background_worker.py",
        'is_taken=told == "one" and worker.started.is_set()',
        "is_taken=False",
        (
            (
                "api/test_interrupted_scripts.py::"
                "test_the_first_one_says_at_once_what_is_waited_for_and_the_second_gives_it_back"
            ),
        ),
    ),
    Break(
        "a reload takes a running job's attempt away",
        "cli/reloader.py",
        "            place.tell(DRAIN)",
        "            place.send(signal.SIGKILL)",
        (
            (
                "cli/test_dev_command.py::"
                "test_a_job_in_flight_is_given_back_with_its_attempt_and_runs_again_in_the_new_code"
            ),
        ),
    ),
    Break(
        "of two saves in one second the first one runs",
        "cli/reloader.py",
        "        forget_bytecode(paths)\n",
        "",
        (
            (
                "cli/test_dev_command.py::"
                "test_the_next_job_runs_the_code_that_was_saved_even_within_one_second_of_the_last_save"
            ),
        ),
    ),
    Break(
        "the private server restarts with every reload",
        "cli/reloader.py",
        "            await self._hold.take()",
        "            await self._hold.drop()",
        (
            (
                "cli/test_dev_command.py::"
                "test_without_a_database_it_runs_on_a_private_server_that_stays_over_a_reload_and_ends_with_it"
            ),
        ),
    ),
    Break(
        "a new project overwrites a file that appears meanwhile",
        "cli/init.py",
        'path.open("x"',
        'path.open("w"',
        ("cli/test_init_command.py::test_what_was_written_before_an_error_is_taken_back",),
    ),
    Break(
        "an empty variable of the shell means every job",
        "cli/job_targets.py",
        "    if job_filter is not None and not job_filter:",
        "    if job_filter is not None and False:",
        ("cli/test_jobs_by_filter.py::test_an_empty_variable_of_the_shell_does_not_mean_all",),
    ),
    Break(
        "all jobs of a filter are acted on without a question",
        "cli/bulk.py",
        "        if refused is not None:",
        "        if refused is not None and False:",
        (
            "cli/test_jobs_by_filter.py::test_a_filter_is_previewed_and_refused_without_a_yes",
            "cli/test_jobs_by_filter.py::test_on_a_terminal_the_verb_has_to_be_typed",
        ),
    ),
    Break(
        "text of a job steers the terminal of the operator",
        "cli/terminal.py",
        "    return text if text.isprintable() else text.translate(_CONTROLS)",
        "    return text",
        ("cli/test_tables.py::test_text_of_a_job_cannot_steer_the_terminal",),
    ),
    Break(
        "top leaves the terminal without echo",
        "cli/keyboard.py",
        "        termios.tcsetattr(terminal, termios.TCSADRAIN, before)",
        "        pass",
        ("cli/test_top.py::test_q_quits_and_gives_the_terminal_back",),
    ),
    Break(
        "what a process has counted is forgotten when it dies",
        "metrics/fleet.py",
        "                self._ended.include(receiver.latest.figures, is_over=True)",
        "                self._ended.include(Figures(), is_over=True)",
        ("cli/test_worker_metrics.py::test_counts_that_were_scraped_stay_when_their_process_is_killed",),
    ),
    Break(
        "every process of a port asks the database",
        "metrics/fleet.py",
        "            is_asker = asker is None and process.latest is not None",
        "            is_asker = process.latest is not None",
        (
            "cli/test_worker_metrics.py::test_however_often_anybody_looks_the_database_is_asked_every_few_seconds",
        ),
    ),
    Break(
        "every scrape asks the database",
        "metrics/database_figures.py",
        "monotonic() - self._asked_at >= _FRESH",
        "monotonic() - self._asked_at >= 0",
        (
            "cli/test_worker_metrics.py::test_however_often_anybody_looks_the_database_is_asked_every_few_seconds",
        ),
    ),
    Break(
        "runs that the leader took away are in no sum",
        "metrics/event_counter.py",
        "                add(RUNS, 1, event.kind, event.queue, event.outcome)\n",
        "",
        ("cli/test_worker_metrics.py::test_runs_of_a_killed_process_are_counted_as_rescues_by_the_leader",),
    ),
    Break(
        "an outage of Postgres makes a worker unhealthy",
        "metrics/probes.py",
        "    wrong = []\n",
        '    wrong = ["no database"] if vitals is not None and vitals.is_database_lost else []\n',
        (
            "cli/test_probes.py::test_without_postgres_a_worker_is_healthy_and_is_not_ready_once_it_has_lost_its_lease",
        ),
    ),
    Break(
        "a blocked event loop is healthy",
        "metrics/probes.py",
        "    if now - loop_beat_at > bound:",
        "    if now - loop_beat_at > 1000 * bound:",
        ("cli/test_probes.py::test_a_blocked_event_loop_is_told_while_it_is_blocked",),
    ),
    Break(
        "a lease keeper that is stuck is healthy",
        "metrics/probes.py",
        "now - came_round_at > max(bound, _KEEPER_SECONDS):",
        "now - came_round_at > 1000 * bound:",
        ("cli/test_probes.py::test_a_frozen_lease_keeper_is_told",),
    ),
    Break(
        "a worker that drains is ready",
        "metrics/probes.py",
        '    if vitals.activity == "stopping":',
        '    if vitals.activity == "stopped":',
        ("cli/test_probes.py::test_a_draining_worker_is_healthy_and_not_ready",),
    ),
    Break(
        "a frozen process is healthy",
        "metrics/fleet.py",
        "    if silent > bound:",
        "    if silent > 1000 * bound:",
        ("cli/test_probes.py::test_a_process_that_is_frozen_as_a_whole_is_told_by_its_supervisor",),
    ),
    Break(
        "autoscalers start workers for parked jobs",
        "storage/migrations/0012_backlog.sql",
        "r.segment in (0, 1, 2, 3)",
        "r.segment in (0, 1, 2, 3, 9)",
        ("storage/test_backlog_function.py::test_parked_jobs_and_those_past_their_deadline_do_not_count",),
    ),
    Break(
        "autoscalers start workers for a paused queue",
        "storage/migrations/0012_backlog.sql",
        "q.paused_at is not null",
        "q.paused_at is null",
        ("storage/test_backlog_function.py::test_nothing_counts_while_the_queue_is_paused",),
    ),
    Break(
        "what follows a group is enqueued before its last member has ended",
        "storage/groups.py",
        "        if seen.awaited is not None:\n            return seen.awaited\n        counts +=",
        "        counts +=",
        (_COUNTED + "test_a_group_is_not_closed_before_its_last_member_has_ended",),
    ),
    Break(
        "two leaders enqueue what follows a group twice",
        "storage/sql/group_lock.sql",
        " where id = %(job_group)s::bigint and closed_at is null\n   for update skip locked",
        " where id = %(job_group)s::bigint",
        (_COUNTED + "test_of_two_leaders_that_close_a_group_at_once_one_does",),
    ),
    Break(
        "results of members are pruned while their group is open",
        "storage/sql_parts/pruned.sql",
        "     and (job in (select job from held)) is not true\n",
        "",
        (_COUNTED + "test_members_that_ended_are_kept_until_the_group_has_ended",),
    ),
    Break(
        "members of a group that stay keep the pruner from others",
        "storage/sql_parts/pruned.sql",
        "(select now from clock) + interval '1 hour'",
        "keep_until",
        (_COUNTED + "test_members_that_ended_are_kept_until_the_group_has_ended",),
    ),
    Break(
        "a member that is retried counts twice",
        "storage/sql/group_count.sql",
        " - count(*) filter (where is_again) as failed",
        " as failed",
        (_COUNTED + "test_a_member_that_failed_again_counts_once",),
    ),
    Break(
        "a group whose ends nobody counted stays open for ever",
        "worker/chores/group_closer.py",
        "is_sweep = monotonic() >= self._sweep_at",
        "is_sweep = False",
        (_GROUPS + "test_a_sweep_closes_groups_that_nothing_told_of",),
    ),
    Break(
        "a cancelled group is followed",
        "domain/group.py",
        "    if is_cancelled:\n        return None\n",
        "",
        (_GROUPS + "test_a_cancelled_group_cancels_its_members_and_nothing_follows",),
    ),
    Break(
        "cancelling a group cancels what others asked for",
        "storage/sql/group_to_cancel.sql",
        "case when j.parent = g.id then m.job end as job",
        "m.job as job",
        (_GROUPS + "test_a_cancelled_group_cancels_its_members_and_nothing_follows",),
    ),
    Break(
        "a member of an open group can be deleted",
        "storage/sql/delete.sql",
        "where id = m.job_group and ended_at is null offset 0",
        "where id = m.job_group and false offset 0",
        (_COUNTED + "test_a_member_of_an_open_group_cannot_be_deleted",),
    ),
)
