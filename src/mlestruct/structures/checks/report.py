"""What `check_structure` finds."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Finding:
    """One violation of the contract.

    check : its name
    message : what was found, and where
    is_error : whether results would be wrong; else it is advice
    """

    check: str
    message: str
    is_error: bool = True

    def __str__(self) -> str:
        return f"{'error' if self.is_error else 'advice'}: {self.check}: {self.message}"


@dataclass
class StructureReport:
    """All findings, with the names of the checks that were made.

    findings : list of `Finding`
    checks : names of the checks that were made
    calls : of the decoder
    """

    findings: list[Finding] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    calls: int = 0

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.is_error]

    @property
    def passed(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    def add(self, check: str, message: str, is_error: bool = True) -> None:
        """Keep the first finding of each check."""
        if not any(finding.check == check for finding in self.findings):
            self.findings.append(Finding(check, message, is_error))

    def __str__(self) -> str:
        head = f"{len(self.checks)} checks, {self.calls} calls of decode"
        if not self.findings:
            return f"{head}: all passed"
        return "\n".join([f"{head}:", *(f"  {finding}" for finding in self.findings)])


class StructureError(ValueError):
    """A structure or decoder violates the contract; `report` has all findings."""

    def __init__(self, report: StructureReport):
        super().__init__(str(report))
        self.report = report
