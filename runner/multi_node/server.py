"""A machine that lends itself: it starts, for one run at a time, what the run's leader needs here.

Nothing that arrives is ever executed: what is started is this machine's own interpreter with its own
harness, by the name of a case. Whoever knows the secret may have that done.
"""

import contextlib
import os
import secrets
import select
import shutil
import socket
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from .. import machine
from ..execution.launch.launch import CannotLaunch, allowed_cpus
from ..worker.case_key import CaseKeyError
from ..worker.distributed.tcp_channel import Call, Refused, answer
from .handshake import Terms, difference
from .remote_ranks import Asked, LentGang, Offer

#: Begins the token of whatever is started for another machine.
TOKEN = "lent"
#: How long a caller may take to say what it wants.
_PATIENCE_SECONDS = 10.0
_LOOK_SECONDS = 0.25
#: So many callers at once; more are strangers.
_MOST_CALLERS = 64


class Tell(Protocol):
    """Hears what happens."""

    def __call__(self, event: str, **about: Any) -> None:
        """One event."""
        ...


class _Ending:
    """Something that ends once, for everybody who waits for it: a descriptor that becomes readable."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        weakref.finalize(self, os.close, self._reader)
        self._lock = threading.Lock()
        self.is_set = False

    def fileno(self) -> int:
        """For a select."""
        return self._reader

    def set(self) -> None:
        """It has ended."""
        with self._lock:
            if not self.is_set:
                self.is_set = True
                os.close(self._writer)


class _Loan:
    """This machine in the hands of one run."""

    def __init__(self, terms: Terms, key: bytes) -> None:
        self.id = secrets.token_hex(8)
        self.terms = terms
        self.key = key
        self.over = _Ending()


class Lender:
    """Serves callers until told to stop. `tell` hears what happens, from several threads."""

    def __init__(self, offer: Offer, secret: bytes, tell: Tell) -> None:
        self._offer = offer
        self._secret = secret
        self._tell = tell
        self._id = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._loan: _Loan | None = None
        self._closing = _Ending()
        self._threads: list[threading.Thread] = []
        self._gangs = 0

    def serve(self, listener: socket.socket, stop: Callable[[], bool]) -> None:
        """Lend this machine to whoever knows the secret, until `stop()`; leaves no process behind."""
        try:
            while not stop():
                if not select.select([listener], [], [], _LOOK_SECONDS)[0]:
                    continue
                try:
                    connection, peer = listener.accept()
                except OSError:
                    # Who called is gone again, or there are too many files open: that passes.
                    time.sleep(_LOOK_SECONDS)
                    continue
                self._threads = [thread for thread in self._threads if thread.is_alive()]
                if len(self._threads) >= _MOST_CALLERS:
                    connection.close()
                    continue
                # Not a daemon: what it started has to be buried before this process may end.
                thread = threading.Thread(target=self._serve, args=(connection, str(peer[0])))
                self._threads.append(thread)
                thread.start()
        finally:
            self._closing.set()
            for thread in self._threads:
                thread.join()

    def _serve(self, connection: socket.socket, peer: str) -> None:
        try:
            called = answer(connection, self._key_of)
        except Refused as error:
            self._tell("refused", peer=peer, reason=str(error))
            return
        # A line that breaks ends what hangs on it; that is all there is to do.
        with contextlib.suppress(OSError, ValueError), contextlib.closing(called.line):
            if called.name:
                self._start_for(called)
            else:
                self._lend_to(called, peer)

    def _key_of(self, name: str) -> bytes | None:
        with self._lock:
            loan = self._loan
        if not name:
            return self._secret
        return loan.key if loan is not None and loan.id == name else None

    # -- one loan -------------------------------------------------------------------------

    def _lend_to(self, called: Call, peer: str) -> None:
        line = called.line
        if not line.waiting(_PATIENCE_SECONDS) or (said := line.hear()) is None:
            return
        try:
            terms = Terms.from_body(said.get("lend", {}))
            refused = difference(self._offer.terms, terms)
        except ValueError as error:
            refused, terms = str(error), self._offer.terms
        loan = _Loan(terms, called.key)
        if refused := refused or self._taken_by(loan):
            loan.over.set()
            line.say({"refused": refused})
            self._tell("refused", peer=peer, run=terms.run, reason=refused)
            return
        try:
            gpus = self._offer.environment.gpus if terms.gpus else []
            # This process keeps to the housekeeping CPUs: what is lent is more than it has.
            facts = machine.describe(gpus, len(allowed_cpus(self._offer.profile)))
            self._forget_logs_but_of(terms.run)
            line.say({"lent": {"loan": loan.id, "lender": self._id, "machine": asdict(facts)}})
            self._tell("lent", run=terms.run, to=terms.machine, peer=peer)
            # Silent for as long as the run lasts: any word, or the end, gives the machine back.
            select.select([line, loan.over, self._closing], [], [])
        finally:
            loan.over.set()
            with self._lock:
                if self._loan is loan:
                    self._loan = None
            self._tell("returned", run=terms.run, to=terms.machine)

    def _forget_logs_but_of(self, run: str) -> None:
        """Each leader has been told the ends of its logs: whole ones are kept until the next run comes."""
        folder = self._offer.folder
        for old in folder.iterdir() if folder.is_dir() else ():
            if old.name != run:
                shutil.rmtree(old, ignore_errors=True)

    def _taken_by(self, loan: _Loan) -> str:
        """Take this machine for a run, or answer why not. A run that lost its line may come again."""
        with self._lock:
            before = self._loan
            if before is not None and before.terms.run != loan.terms.run:
                return f"it is lent to run {before.terms.run} of {before.terms.machine}"
            self._loan = loan
        if before is not None:
            before.over.set()
        return ""

    # -- one gang -------------------------------------------------------------------------

    def _start_for(self, called: Call) -> None:
        line = called.line
        with self._lock:
            loan, self._gangs = self._loan, self._gangs + 1
            number = self._gangs
        said = line.hear() if line.waiting(_PATIENCE_SECONDS) else None
        if loan is None or loan.id != called.name or said is None:
            return
        run = loan.terms.run
        try:
            asked = Asked.from_body(said.get("start"), line.ends[1])
            token, log = f"{TOKEN}:{run}:{number}:", Path(run, f"{number}.log")
            gang = LentGang(asked, self._offer, called.key, token, log)
        except (CannotLaunch, CaseKeyError, ValueError) as error:
            line.say({"refused": str(error)})
            return
        about = {"run": run, "case": asked.case, "node": asked.node}
        try:
            self._tell("started", **about)
            line.say({"started": True})
            # The end of the mate, a word of the leader or the end of its line, of the loan, or of ourselves.
            select.select([gang, line, loan.over, self._closing], [], [])
        finally:
            end = gang.bury()
            self._tell("ended", **about, reason=end.reason, left_over=list(end.left_over))
        line.say({"ended": {"status": end.status, "reason": end.reason, "log": end.log}})
