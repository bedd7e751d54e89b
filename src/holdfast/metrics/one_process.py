"""What the port of a worker without a supervisor answers."""

from holdfast.metrics import probes
from holdfast.metrics.database_figures import DatabaseFigures
from holdfast.metrics.figures import Figures, joined
from holdfast.metrics.probes import Verdict
from holdfast.metrics.process_report import ProcessReporter


class OneProcess:
    def __init__(self, reporter: ProcessReporter, database: DatabaseFigures) -> None:
        self._reporter = reporter
        self._database = database

    def figures(self) -> Figures:
        return joined([self._database.latest(), self._reporter.report().figures])

    def health(self) -> Verdict:
        return probes.health([self._reporter.health()])

    def readiness(self) -> Verdict:
        return probes.readiness([self._reporter.health()])
