"""Runs tests of the Grid suite with pytest and prints the results as JSON: run.py FILE...

The input is that of the Java suite.
"""

import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest


class Results:
    """Collects the results of all processes of pytest."""

    def __init__(self):
        self.passed, self.failed, self.changes = 0, [], []

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed.append(f"{report.nodeid}, {report.when}: {report.longreprtext}")
        self.passed += report.when == "call" and report.passed
        if report.when == "teardown":
            times = dict(report.user_properties)
            self.changes += [(times[name], change) for name, change in (("requested", 1), ("ended", -1)) if name in times]

    def peak(self):
        """The highest number of sessions that were requested or open at once."""
        count = peak = 0
        for _, change in sorted(self.changes):
            count += change
            peak = max(peak, count)
        return peak


arguments = json.load(sys.stdin)
os.environ.update(GRID_URL=arguments["endpoint"], SITE=arguments["site"], PYTHONDONTWRITEBYTECODE="1")
sys.dont_write_bytecode = True
here, results = Path(__file__).parent, Results()
with redirect_stdout(sys.stderr):
    pytest.main(
        ["-q", "-c", os.devnull, "--rootdir", str(here), "-p", "no:cacheprovider", "-n", str(arguments["parallel"])]
        + ["-o", "markers=capabilities(values): capabilities of the session", *(str(here / name) for name in sys.argv[1:])],
        plugins=[results],
    )
print(json.dumps({"passed": results.passed, "failed": results.failed, "peak": results.peak()}))
