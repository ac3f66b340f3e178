"""Runs cases of mpi4py's test modules under our mpiexec, and finds out what became of each on all ranks."""

import dataclasses
import json
import re
from pathlib import Path

from suite import PREFIX, run

RECORD = Path(__file__).with_name("record.py")
JOB_SECONDS = 400  # the whole of a job; a single case that hangs is cut long before
MOST_BREAKS = 8  # jobs that end before their last case, after which the rest counts as failed


@dataclasses.dataclass
class Outcome:
    """`ok`, `skip` (by a decision of mpi4py's, such as a case for even numbers of ranks only) or `fail`; and why."""

    status: str
    why: str = ""


NOT_BEGUN = Outcome("fail", "it did not begin")
NOT_ENDED = Outcome("fail", "it did not end")


class Journal:
    """What one rank wrote; the lines are explained in record.py."""

    def __init__(self, path):
        self.plan = []
        self.began = set()
        self.ended = {}
        self.groups = {}  # what became of a class or a module whose cases could not begin
        self.finished = False
        text = path.read_text() if path.exists() else ""
        for line in text.splitlines():
            try:
                self._take(json.loads(line))
            except json.JSONDecodeError:  # killed in the middle of a line
                break

    def _take(self, line):
        if "plan" in line:
            self.plan = line["plan"]
        elif "begin" in line:
            self.began.add(line["begin"])
        elif "end" in line:
            self.ended[line["end"]] = Outcome(line["outcome"], line["why"])
        elif "group" in line:
            name = re.search(r"\((.+)\)", line["group"])
            self.groups[name[1] if name else line["group"]] = Outcome(line["outcome"], line["why"])
        elif "finished" in line:
            self.finished = True

    def outcome(self, case):
        if case in self.ended:
            return self.ended[case]
        if case in self.began:
            return NOT_ENDED
        for name, outcome in self.groups.items():
            if case.startswith(name + "."):
                return outcome
        return NOT_BEGUN


def together(outcomes):
    """What ranks saw of one case: failed if it failed on any, passed if it passed on any other."""
    failed = [f"rank {rank}: {outcome.why}" for rank, outcome in enumerate(outcomes) if outcome.status == "fail"]
    if failed:
        return Outcome("fail", "\n".join(failed))
    if any(outcome.status == "ok" for outcome in outcomes):
        return Outcome("ok")
    return Outcome("skip", outcomes[0].why)


class Job:
    """Cases from index `begin` on, in one job."""

    def __init__(self, ranks, modules, begin, folder, *, python, env, case_seconds):
        folder.mkdir(parents=True)
        command = [PREFIX / "bin/mpiexec", "-n", ranks, "--timeout", JOB_SECONDS]
        command += [python, RECORD, folder, begin, case_seconds, *modules]
        self.result = run(command, timeout=JOB_SECONDS + 30, env=env)
        self.journals = [Journal(folder / str(rank)) for rank in range(ranks)]
        self.plans_agree = all(journal.plan == self.journals[0].plan for journal in self.journals)
        self.plan = self.journals[0].plan

    @property
    def whole(self):
        return self.result.status == 0 and self.plans_agree and all(journal.finished for journal in self.journals)

    def end(self, begin):
        """The index after the case in which the job broke: the first that did not end on all ranks. What some rank did after it
        says nothing, because the job was lost."""
        for index in range(begin, len(self.plan)):
            if any(journal.outcome(self.plan[index]) in (NOT_BEGUN, NOT_ENDED) for journal in self.journals):
                return index + 1
        return len(self.plan)


def run_modules(ranks, modules, folder, *, python, env, case_seconds=60):
    """({case: Outcome}, [how a job ended that did not end well]). A case in which a job breaks has failed, and a new job goes on
    after it."""
    outcomes, breaks = {}, []
    begin = 0
    while True:
        job = Job(ranks, modules, begin, folder / str(len(breaks)), python=python, env=env, case_seconds=case_seconds)
        if not job.plans_agree or not job.plan:
            return outcomes, [*breaks, f"the ranks did not load the same cases\n{job.result}"]
        end = job.end(begin)
        for case in job.plan[begin:end]:
            outcomes[case] = together([journal.outcome(case) for journal in job.journals])
        if job.whole:
            return outcomes, breaks
        breaks.append(f"the job broke at {job.plan[end - 1]}\n{job.result}")
        if end == len(job.plan):
            return outcomes, breaks
        if len(breaks) > MOST_BREAKS:
            outcomes.update((case, Outcome("fail", "it was not run: too many jobs broke")) for case in job.plan[end:])
            return outcomes, breaks
        begin = end
