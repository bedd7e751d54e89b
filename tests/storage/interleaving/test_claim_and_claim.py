"""Two workers claim the same jobs."""

import pytest

from storage.interleaving.prepared_jobs import DONE, blocking_runs
from storage.interleaving.stepped_sessions import Sessions


@pytest.mark.requirement("S1.3", "S2.17", "S4.9")
def test_a_claim_skips_jobs_of_another_claim_without_waiting(sessions: Sessions) -> None:
    ann, bob = sessions.open_many(2)
    first, second = ann.enqueue(), ann.enqueue()
    ann_worker, bob_worker = ann.worker(), bob.worker()
    ann.begin()
    [anns] = ann.claim(ann_worker, limit=1)
    [bobs] = bob.claim(bob_worker, limit=1)
    assert (anns.job, bobs.job) == (first, second)
    assert bob.claim(bob_worker) == []
    ann.commit()
    assert bob.claim(bob_worker) == []
    assert anns.run != bobs.run


@pytest.mark.requirement("S1.3", "S2.17")
def test_a_claim_that_is_rolled_back_leaves_the_job_to_the_next(sessions: Sessions) -> None:
    ann, bob = sessions.open_many(2)
    job = ann.enqueue()
    ann_worker, bob_worker = ann.worker(), bob.worker()
    ann.begin()
    [anns] = ann.claim(ann_worker)
    assert bob.claim(bob_worker) == []
    ann.rollback()
    [bobs] = bob.claim(bob_worker)
    assert (bobs.job, bobs.attempt) == (job, 1)
    assert ann.settles(ann_worker, anns, DONE).answer == "lost"
    assert bob.settles(bob_worker, bobs, DONE).answer == "settled"


@pytest.mark.requirement("S4.9", "S0.3")
def test_a_claim_that_began_before_another_one_ended_takes_only_what_is_left(sessions: Sessions) -> None:
    """Its snapshot still shows the other's jobs; the rows themselves say that they are gone."""
    ann, bob, mark = sessions.open_many(3)
    jobs = [ann.enqueue() for _ in range(4)]
    ann_worker, bob_worker = ann.worker(), bob.worker()
    with mark.holding("select from holdfast.worker where id = %s for update", bob_worker):
        bobs = sessions.start(bob, lambda: bob.claim(bob_worker)).waits_for(mark)
        anns = ann.claim(ann_worker, limit=3)
    assert [row.job for row in anns] == jobs[:3]
    assert [row.job for row in bobs.answer()] == jobs[3:]


def test_two_claims_stopped_in_the_middle_share_the_jobs_and_no_run(sessions: Sessions) -> None:
    ann, bob, mark = sessions.open_many(3)
    jobs = [ann.enqueue() for _ in range(4)]
    ann_worker, bob_worker = ann.worker(), bob.worker()
    with blocking_runs(mark):
        anns = sessions.start(ann, lambda: ann.claim(ann_worker, limit=2)).waits_for(mark)
        bobs = sessions.start(bob, lambda: bob.claim(bob_worker, limit=4)).waits_for(mark)
    rows = anns.answer() + bobs.answer()
    assert sorted(row.job or 0 for row in rows) == jobs
    assert len({row.run for row in rows}) == 4
