"""What a check says: findings, counts, and one outcome that cannot be PASS with nothing judged."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from harness.case import Case

Outcome = Literal["PASS", "FAIL", "INCONCLUSIVE", "ERROR", "EMPTY"]
EXIT_STATUS: dict[Outcome, int] = {"PASS": 0, "FAIL": 1, "ERROR": 1, "INCONCLUSIVE": 2, "EMPTY": 2}

ERRORS = frozenset({"raises", "hangs", "crashes"})
"""Checks whose failure is the outcome ERROR: the kernel gave no answer to judge."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    check: the name of the check that failed; message: element, got, exact, error and bound; case: the
    smallest input found; element: of the output, or None; format: under test; replay: a command that shows
    it again in a new process; snippet: Python that rebuilds the input; explanation: the claim under which
    it would be right, or what it looks like.
    """

    check: str
    message: str
    case: Case
    element: tuple[int, ...] | None = None
    format: str = ""
    replay: str = ""
    snippet: str = ""
    explanation: str = ""
    output: str = "out"


@dataclass
class Tally:
    """Counts of one format. Everything that was not judged is counted with its reason.

    cut_short: by a limit of time; interrupted: by a user.
    """

    launches: int = 0
    reruns: int = 0
    situations: int = 0
    elements: int = 0
    plain_situations: int = 0
    decisive_situations: int = 0
    empty_launches: int = 0
    declined: Counter[str] = field(default_factory=Counter)
    unspecified: int = 0
    unbounded: int = 0
    escalated: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    families: Counter[str] = field(default_factory=Counter)
    layouts: Counter[str] = field(default_factory=Counter)
    largest_ratio: float = 0.0
    largest_ratio_case: Case | None = None
    seconds: Counter[str] = field(default_factory=Counter)
    cut_short: bool = False
    interrupted: bool = False

    def add(self, other: Tally) -> None:
        """Add the counts of one trial."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("escalated", "declined", "notes", "families", "layouts", "seconds"):
            getattr(self, name).update(getattr(other, name))
        if other.largest_ratio > self.largest_ratio:
            self.largest_ratio, self.largest_ratio_case = other.largest_ratio, other.largest_ratio_case

    def outcome(self, findings: list[Finding]) -> Outcome:
        """The outcome of one format: PASS needs half of its situations decisive, and half of its elements bounded."""
        if findings:
            return "ERROR" if all(finding.check in ERRORS for finding in findings) else "FAIL"
        if self.interrupted:
            return "INCONCLUSIVE"
        if self.elements == 0:
            return "EMPTY" if self.empty_launches and not self.declined else "INCONCLUSIVE"
        decisive = 2 * self.decisive_situations >= max(self.plain_situations, 1)
        bounded = 2 * self.unbounded <= self.elements
        return "PASS" if decisive and bounded and not self.cut_short else "INCONCLUSIVE"

    def reason(self, findings: list[Finding]) -> str:
        """Why the format is inconclusive or empty, in words; "" otherwise."""
        outcome = self.outcome(findings)
        if outcome == "EMPTY":
            return "every output was empty"
        if outcome != "INCONCLUSIVE":
            return ""
        if self.interrupted:
            return "interrupted"
        if self.elements == 0 and self.declined:
            return "every case was declined"
        if self.elements == 0:
            return "nothing was judged"
        if self.cut_short:
            return "the time limit cut the search short"
        if 2 * self.unbounded > self.elements:
            return (
                f"{self.unbounded} of {self.elements} elements have no finite bound: claim less error, "
                "or judge shorter rows (--domain max_elements=N)"
            )
        return (
            f"{self.decisive_situations} of {self.plain_situations} situations are decisive: "
            "zeros in place of the others would pass"
        )


_COUNTS = (
    "launches",
    "reruns",
    "situations",
    "elements",
    "plain_situations",
    "decisive_situations",
    "empty_launches",
    "unspecified",
    "unbounded",
)


@dataclass(frozen=True, repr=False)
class Verdict:
    """The result of :func:`harness.check`; ``print`` it, or read outcome, ok and findings. Its repr is its text, of
    which pytest shows the beginning and the end for ``assert verdict.ok, verdict``, and all for ``str(verdict)``.

    subject: what was judged; contract: its contract's name; device: where it ran; claims: the claims made;
    excluded: what the domain restricts the judged to; tallies: counts by format; seed: of the search.
    """

    subject: str
    contract: str
    device: str
    findings: tuple[Finding, ...]
    tallies: dict[str, Tally]
    claims: dict[str, object] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
    seed: int = 0
    interrupted: bool = False

    @property
    def outcome(self) -> Outcome:
        """The worst outcome of the formats: FAIL, ERROR, INCONCLUSIVE, then PASS; EMPTY when all are."""
        found = [self.outcome_of(name) for name in self.tallies]
        for outcome in ("FAIL", "ERROR", "INCONCLUSIVE"):
            if outcome in found:
                return outcome
        return "PASS" if "PASS" in found else "EMPTY"

    @property
    def ok(self) -> bool:
        """Whether the outcome is PASS."""
        return self.outcome == "PASS"

    def outcome_of(self, fmt: str) -> Outcome:
        """The outcome of one format."""
        return self.tallies[fmt].outcome(self.findings_of(fmt))

    def findings_of(self, fmt: str) -> list[Finding]:
        """The findings of one format."""
        return [finding for finding in self.findings if finding.format == fmt]

    @property
    def claim(self) -> str:
        """``right if claims={...}`` where claims explain every finding; each with its formats where they differ."""
        if not all(finding.explanation.startswith("right if ") for finding in self.findings):
            return ""
        formats: dict[str, dict[str, None]] = {}
        for finding in self.findings:
            formats.setdefault(finding.explanation, {})[finding.format] = None
        if len(formats) <= 1:
            return next(iter(formats), "")
        return "; ".join(f"in {' and '.join(names)} {claim}" for claim, names in formats.items())

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The verdict as text: the claim that would make it right first, then findings, then counts."""
        lines = [self.claim] if self.claim else []
        lines.append(f"{self.outcome} {self.subject} as {self.contract} on {self.device}")
        if self.claims:
            lines.append(f"  claims: {self.claims}")
        for words in self.excluded:
            lines.append(f"  restricted by the domain to: {words}")
        shown: set[str] = set()
        for finding in self.findings:
            lines += ["", *self._finding(finding, brief=finding.check in shown)]
            shown.add(finding.check)
        if self.findings:
            lines.append("")
        for name in self.tallies:
            lines += self._counts(name)
        if self.interrupted:
            lines.append("  interrupted: the counts are of what ran")
        return lines

    def _finding(self, finding: Finding, brief: bool) -> list[str]:
        """A finding in full, or without its snippet where the same check was shown in another format."""
        lines = [f"  {finding.check} ({finding.format}): {finding.message}".replace("\n", "\n    ")]
        if finding.snippet and not brief:
            lines += [
                "    smallest input found:",
                *(f"        {line}" for line in finding.snippet.splitlines()),
            ]
        if finding.explanation:
            lines.append(f"    explanation: {finding.explanation}")
        if finding.replay:
            lines.append(f"    replay: {finding.replay}")
        return lines

    def _supported(self) -> str:
        """How to leave out a format all of whose cases were declined."""
        rest = [name for name, tally in self.tallies.items() if tally.launches] or ["NAME"]
        words = ", ".join(repr(name) for name in rest) + ("," if len(rest) == 1 else "")
        return (
            f"to judge only formats that it supports: --dtype {','.join(rest)}, or dtypes=({words}), "
            "also of @harness.subject; to leave out other inputs: --domain"
        )

    def _counts(self, name: str) -> list[str]:
        tally = self.tallies[name]
        line = (
            f"  {name}: {self.outcome_of(name)}, {tally.situations} situations in {tally.launches} launches "
            f"(+{tally.reruns} reruns), {tally.elements} elements, largest ratio {tally.largest_ratio:.3g}, "
            f"{tally.decisive_situations}/{tally.plain_situations} decisive"
        )
        lines = [line]
        reason = tally.reason(self.findings_of(name))
        if tally.declined and not tally.launches:
            lines = [
                f"  {name}: {self.outcome_of(name)}, {sum(tally.declined.values())} cases, nothing was launched"
            ]
            reason = f"{reason}; {self._supported()}"
        if reason:
            lines.append(
                f"    inconclusive: {reason}" if self.outcome_of(name) == "INCONCLUSIVE" else f"    {reason}"
            )
        counted = [
            (tally.empty_launches, "launches with an empty output"),
            (tally.unspecified, "elements whose answer is left open, by an overflow or the contract"),
            (tally.unbounded, "elements without a finite bound"),
            *((count, f"elements judged by {tier}") for tier, count in tally.escalated.items()),
            *((count, f"declined: {reason}") for reason, count in tally.declined.items()),
            *((count, f"noted: {note}") for note, count in tally.notes.items()),
        ]
        words = [f"{count} {what}" for count, what in counted if count]
        if words:
            lines.append("    " + "; ".join(words))
        return lines
