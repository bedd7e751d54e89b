"""Rules of workers: claim, save, settle in time, too late or twice, heartbeat, retire, and lose replies."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from holdfast.domain.outcome import AttemptOutcome
from holdfast.domain.retention import Retention
from holdfast.domain.transition import ReleaseJob, Run, Transition, decide
from holdfast.storage import runs, workers
from holdfast.storage.runs import Saving, Settled, Settlement
from storage.state_machine.core import Claim, Core, all_workers, late, live, one_of, some_of, stale
from storage.state_machine.inputs import ALL_KINDS, ALL_QUEUES, STATES, outcomes, transitions
from storage.state_machine.job_places import Running, Worker
from support.engine import SCHEMA

_outcomes = st.lists(outcomes, min_size=3, max_size=3)


class Working(Core):
    @precondition(lambda self: sum(worker.is_alive for worker in self.model.workers.values()) < 3)
    @rule(
        queues=st.lists(st.sampled_from(ALL_QUEUES), min_size=1, unique=True).map(tuple),
        kinds=st.lists(st.sampled_from(ALL_KINDS), min_size=1, unique=True).map(tuple),
    )
    def begin_worker(self, queues: tuple[str, ...], kinds: tuple[str, ...]) -> None:
        id_ = self.engine.worker(queues=queues, kinds=kinds)
        self.model.workers[id_] = Worker(id_, queues, kinds, self.now + workers.LEASE)

    @precondition(lambda self: bool(all_workers(self)))
    @rule(
        worker=one_of(all_workers),
        queue=st.sampled_from(ALL_QUEUES),
        kinds=st.sampled_from([ALL_KINDS, ALL_KINDS, ALL_KINDS[:1]]),
        limit=st.integers(1, 4),
        is_reply_lost=st.booleans(),
    )
    def claim(
        self, worker: int, queue: str, kinds: tuple[str, ...], limit: int, *, is_reply_lost: bool
    ) -> None:
        self.take(worker, queue, kinds, limit, is_reply_lost=is_reply_lost)

    def take(
        self, worker: int, queue: str, kinds: tuple[str, ...], limit: int, *, is_reply_lost: bool
    ) -> list[Claim]:
        me = self.model.workers[worker]
        expected = self.model.claimable(worker, queue, kinds, limit)
        rows = self.engine.run(
            runs.claim(
                SCHEMA, worker=worker, queue=queue, kinds=kinds, limit=limit, closed=me.closed, now=self.now
            )
        )
        ring = self.model.ring
        assert {(row.ring_version, row.closed) for row in rows} == {(ring.version, ring.closed_at(self.now))}
        claimed = {row.job: row for row in rows if row.job is not None}
        assert sorted(claimed) == sorted(expected)
        newest = max((run for _, _, run in self.claims), default=0)
        for job, row in claimed.items():
            assert row.run > newest, "a run's number was given before"
            self.model.claim(worker, job, row.run)
            self.claims.append((worker, job, row.run))
            assert (row.attempt, row.state) == (self.model.jobs[job].place.attempt, self.model.saved.get(job))
        if not is_reply_lost:
            me.closed = rows[0].closed
            me.memory.update(row.run for row in claimed.values())
        return [(worker, job, row.run) for job, row in claimed.items()]

    @rule(came_to=_outcomes, limit=st.integers(1, 3), is_sent_again=st.booleans())
    def work(self, came_to: list[AttemptOutcome], limit: int, *, is_sent_again: bool) -> None:
        """What happens most: claimed and settled at once."""
        worker = self.alive_worker()
        for queue in ALL_QUEUES:
            claims = self.take(worker, queue, ALL_KINDS, limit, is_reply_lost=False)
            self.settle(claims, came_to, 0.5, is_hindered=False, is_sent_again=is_sent_again)

    @rule(queue=st.sampled_from(ALL_QUEUES), limit=st.integers(1, 3))
    def begin_runs(self, queue: str, limit: int) -> None:
        self.take(self.alive_worker(), queue, ALL_KINDS, limit, is_reply_lost=False)

    def alive_worker(self) -> int:
        if not any(worker.is_alive for worker in self.model.workers.values()):
            self.begin_worker(ALL_QUEUES, ALL_KINDS)
        return max(worker.id for worker in self.model.workers.values() if worker.is_alive)

    @precondition(lambda self: bool(live(self)))
    @rule(
        claims=some_of(live),
        came_to=_outcomes,
        luck=st.sampled_from([0.0, 0.5]),
        is_hindered=st.booleans(),
        is_sent_again=st.booleans(),
    )
    def settle(
        self,
        claims: list[Claim],
        came_to: list[AttemptOutcome],
        luck: float,
        *,
        is_hindered: bool,
        is_sent_again: bool,
    ) -> None:
        """Also while another session locks the unique keys, and when the same is sent again."""
        settlements = [
            Settlement(worker, job, run, self.decide(job, outcome, luck))
            for (worker, job, run), outcome in zip(claims, came_to, strict=False)
        ]
        if is_hindered:
            with self.rival.transaction():
                self.rival.execute("select from holdfast.unique_key for update")
                self.send(settlements, is_hindered=True)
        else:
            self.send(settlements)
        if is_sent_again:
            assert all(answer.answer == "already" for answer in self.send(settlements))
        for worker, _, run in claims:
            self.model.workers[worker].memory.discard(run)

    @precondition(lambda self: bool(stale(self)))
    @rule(claims=some_of(late) | some_of(stale), asked=st.lists(transitions, min_size=3, max_size=3))
    def settle_too_late(self, claims: list[Claim], asked: list[Transition]) -> None:
        settlements = [
            Settlement(*claim, transition) for claim, transition in zip(claims, asked, strict=False)
        ]
        assert all(answer.answer in ("already", "lost") for answer in self.send(settlements))

    @precondition(lambda self: bool(live(self)))
    @rule(claim=one_of(live), transition=transitions)
    def settle_what_was_given_back(self, claim: Claim, transition: Transition) -> None:
        """The same worker may have the job again by then: only the run tells the two apart."""
        worker, job, run = claim
        self.send([Settlement(worker, job, run, ReleaseJob())])
        self.model.workers[worker].memory.discard(run)
        self.take(worker, self.model.jobs[job].new.policy.queue, ALL_KINDS, 4, is_reply_lost=False)
        self.save([claim], STATES[0])
        self.settle_too_late([claim], [transition])

    @precondition(lambda self: bool(live(self)))
    @rule(claim=one_of(live), other=one_of(all_workers), transition=transitions)
    def settle_anothers_run(self, claim: Claim, other: int, transition: Transition) -> None:
        """Also when the batch has something of the right worker, too."""
        worker, job, run = claim
        if other != worker:
            batch = [Settlement(other, job, run, transition), Settlement(worker, 0, 0, transition)]
            assert all(answer.answer == "lost" for answer in self.send(batch))

    @precondition(lambda self: bool(live(self)))
    @rule(
        claims=some_of(live) | some_of(lambda self: late(self) or live(self)), state=st.sampled_from(STATES)
    )
    def save(self, claims: list[Claim], state: str) -> None:
        savings = [Saving(*claim, state=state) for claim in claims]
        taken = self.engine.run(runs.save(SCHEMA, savings, now=self.now))
        assert sorted(taken) == sorted(saving.run for saving in savings if self.model.save(saving))

    @precondition(lambda self: bool(all_workers(self)))
    @rule(worker=one_of(all_workers))
    def beat(self, worker: int) -> None:
        """Renew, and give back the runs of claims whose reply never came."""
        me, held = self.model.workers[worker], self.model.leases(worker)
        beat = self.engine.one(
            runs.renew(SCHEMA, worker=worker, lease=workers.LEASE, runs=sorted(me.memory), now=self.now)
        )
        assert beat.is_alive == self.model.renew(worker)
        assert set(beat.missing) == me.memory - set(held)
        assert set(beat.to_cancel) == {
            run
            for run, job in held.items()
            if isinstance(job.place, Running) and job.place.is_cancel_requested
        }
        unknown = {run: job.id for run, job in held.items() if run not in me.memory}
        assert dict(zip(beat.unknown_runs, beat.unknown_jobs, strict=True)) == unknown
        me.memory.difference_update(beat.missing)
        self.send([Settlement(worker, job, run, ReleaseJob()) for run, job in unknown.items()])

    @precondition(lambda self: len(all_workers(self)) > 1)
    @rule(worker=one_of(all_workers))
    def retire(self, worker: int) -> None:
        is_gone = self.engine.hold(workers.retire(SCHEMA, worker=worker, now=self.now))
        assert is_gone == self.model.retire(worker)

    def decide(self, job: int, outcome: AttemptOutcome, luck: float) -> Transition:
        policy, attempt = self.model.jobs[job].new.policy, self.model.jobs[job].place.attempt
        return decide(Run(attempt, policy.max_attempts, policy.backoff, policy.on_lost), outcome, luck)

    def send(self, settlements: list[Settlement], *, is_hindered: bool = False) -> list[Settled]:
        answers = self.engine.hold(
            runs.settle_surely(SCHEMA, settlements, now=self.now, retention=Retention())
        )
        expected = [self.model.settle(settlement, is_hindered=is_hindered) for settlement in settlements]
        assert sorted(answers) == sorted(expected)
        return answers
