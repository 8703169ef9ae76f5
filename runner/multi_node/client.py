"""Neighbours as a run holds them: borrowed as it begins, given back as it ends, asked anew after a loss."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import NeighbourFailed
from ..machine import MachineFacts
from ..worker.distributed.local_channel import Line
from ..worker.distributed.tcp_channel import WireError, call, host_and_port
from .handshake import Terms


@dataclass(frozen=True, slots=True)
class _Loan:
    """One neighbour as it answered; lent for as long as its line is open."""

    line: Line
    key: bytes
    id: str
    lender: str
    machine: MachineFacts


class Neighbours:
    """Machines that lend themselves to one run; raises NeighbourFailed for the first that does not.

    Use as a context manager: leaving it gives them back, as does this process's death.
    """

    def __init__(self, addresses: Sequence[str], secret: bytes, terms: Terms) -> None:
        self._secret = secret
        self._terms = terms
        self._loans: dict[str, _Loan] = {}
        try:
            for address in addresses:
                loan = self._borrow(address)
                if twice := [old for old, other in self._loans.items() if other.lender == loan.lender]:
                    loan.line.close()
                    raise NeighbourFailed(f"neighbours {twice[0]} and {address} are one and the same")
                self._loans[address] = loan
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Neighbours":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def machines(self) -> tuple[MachineFacts, ...]:
        """What they are, in the order in which they were named."""
        return tuple(loan.machine for loan in self._loans.values())

    def facts(self) -> list[dict[str, Any]]:
        """Which machines take part, for the run's header."""
        return [
            {
                "address": address,
                "name": loan.machine.name,
                "fingerprint": loan.machine.fingerprint,
                "hardware_label": loan.machine.hardware_label,
                "hardware_fingerprint": loan.machine.hardware_fingerprint,
                "conditions": dict(loan.machine.conditions),
            }
            for address, loan in self._loans.items()
        ]

    def lent(self, many: int | None = None) -> tuple[Mapping[str, str], ...]:
        """What a worker needs to have the first `many` start members (see `worker.gang_lent.Neighbour`).

        Who of them hung up since is asked again; raises NeighbourFailed where that is in vain.
        """
        for address, loan in list(self._loans.items())[:many]:
            if loan.line.waiting():
                self._loans[address] = self._again(address, loan)
        names = [self._terms.machine, *(loan.machine.name for loan in self._loans.values())]
        return tuple(
            {
                "address": address,
                # Machines cloned from one image may be called alike.
                "name": loan.machine.name if names.count(loan.machine.name) == 1 else address,
                "loan": loan.id,
                "key": loan.key.hex(),
                "hardware": loan.machine.hardware_fingerprint,
                "hardware_label": loan.machine.hardware_label,
            }
            for address, loan in list(self._loans.items())[:many]
        )

    def close(self) -> None:
        """Give them back."""
        for loan in self._loans.values():
            loan.line.close()

    def _again(self, address: str, before: _Loan) -> _Loan:
        # Until there is another, the dead line stays: it says of itself that it is dead.
        loan = self._borrow(address)
        before.line.close()
        same = loan.machine.fingerprint == before.machine.fingerprint
        if not same or loan.machine.hardware_fingerprint != before.machine.hardware_fingerprint:
            loan.line.close()
            raise NeighbourFailed(f"neighbour {address}: another machine than before lends itself there")
        return loan

    def _borrow(self, address: str) -> _Loan:
        try:
            called = call(host_and_port(address), "", self._secret)
            called.line.say({"lend": self._terms.to_body()})
            answer = called.line.hear()
        except (WireError, OSError, ValueError) as error:
            raise NeighbourFailed(f"neighbour {address}: {error}") from error
        if answer is None or "refused" in answer:
            called.line.close()
            reason = "it hung up" if answer is None else str(answer["refused"])
            raise NeighbourFailed(f"neighbour {address}: {reason}")
        lent = answer["lent"]
        return _Loan(called.line, called.key, lent["loan"], lent["lender"], MachineFacts(**lent["machine"]))
