"""What can be wrong with a question to diagnose; each is a sentence that says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.model import WhenceError

if TYPE_CHECKING:
    from whence.debug.diagnose.diagnosis import Diagnosis


class DiagnoseError(WhenceError):
    """Base of the errors of diagnose and explain."""


class BadSpace(DiagnoseError):
    """The parameter space cannot be used as it stands."""


class OutsideSpace(DiagnoseError):
    """A run has a parameter or a value that the space does not know."""


class Contradiction(DiagnoseError):
    """The same configuration failed and succeeded, and the pipeline was not said to be flaky."""


class NothingToCompare(DiagnoseError):
    """There is no failing or no succeeding run, and no budget to look for one."""


class AlwaysFails(DiagnoseError):
    """Every run failed, wherever in the space it was tried. `diagnosis` keeps them."""

    def __init__(self, message: str, diagnosis: Diagnosis) -> None:
        super().__init__(message)
        self.diagnosis = diagnosis


class Interrupted(DiagnoseError, KeyboardInterrupt):
    """The user broke off. `diagnosis` holds everything that was learnt so far.

    It is a KeyboardInterrupt too, so that a program that does not know it ends as it always would.
    """

    def __init__(self, message: str, diagnosis: Diagnosis) -> None:
        super().__init__(message)
        self.diagnosis = diagnosis
