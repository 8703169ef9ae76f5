"""Who works for a service: the lanes of this machine, and one for each place of its fleet."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from db.connection.engine import Database
from db.queue.commands import gone_all, seen_all
from db.queue.queries import schedulers
from records.tasks import SchedulerSeen
from workflows.fleet_status import MEASURING

from ..jobs.context import Done
from .hosts import Place, Places, PlaceSeen
from .log import Log
from .process_identity import Owner, dead_process
from .worker_slot import Lane, Lost, Work

#: Of a place of which nothing is new one in so many beats tells: there may be a thousand of them.
_TOLD_EVERY = 6
#: A place that lost a task takes no other for so long, after the next one twice that, and so on, but never
#: longer than that: one that loses everything would else use up all attempts at all that waits.
REST_SECONDS, _LONGEST_REST_SECONDS = 10.0, 600.0
#: A scheduler of this machine that was not seen for so long is none any more.
_FORGOTTEN = timedelta(days=1)
#: So many sentences on places that are not used are told with each beat.
_TROUBLES = 20
_NAMESAKE = "a place has this machine's name and is left out: its own lane measures here, or nothing"


@dataclass(slots=True)
class Post:
    """A place with its lanes, which the database knows as a scheduler of its own.

    `labels` are what it was asked by when it was looked at last, `facts` what it told of itself. `there` is
    one that was seen then, `drained` one that takes nothing new, `only_by` the labels of all that it takes
    just now, if it does not take what it could. `news` is whether something of it is still to be told.
    `losses` counts the tasks that it lost one after the other; it rests until `rests_until`, by the clock in
    seconds that nobody sets.
    """

    place: Place
    owner: Owner
    lanes: tuple[Lane, ...]
    started_at: datetime
    labels: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    there: bool = True
    drained: bool = False
    only_by: tuple[str, ...] = ()
    news: bool = True
    beats: int = 0
    losses: int = 0
    rests_until: float = 0.0

    @property
    def takes(self) -> tuple[str, ...]:
        """The labels of what it takes up just now; the empty one is that of what asks for no machine."""
        return self.only_by or ("", *self.labels)

    @property
    def busy(self) -> bool:
        """Whether any of its lanes has something to do."""
        return any(lane.work is not None for lane in self.lanes)

    @property
    def is_remembered(self) -> bool:
        """Whether what it lost still counts: it must not be forgotten by going and coming back."""
        return self.losses > 0 and time.monotonic() < self.rests_until + _LONGEST_REST_SECONDS

    def heed(self, work: Work) -> None:
        """Know what became of a work, and rest where the place lost it."""
        if isinstance(work.ending, Lost):
            rest = min(REST_SECONDS * 2 ** min(self.losses, 30), _LONGEST_REST_SECONDS)
            self.losses, self.rests_until = self.losses + 1, time.monotonic() + rest
        elif isinstance(work.ending, Done):
            self.losses = 0

    def close_up(self) -> None:
        """Claim nothing more; what a claim that was not answered did is for the reaper to find."""
        for lane in self.lanes:
            lane.claiming = None


class Crew:
    """The posts of a service: this machine's own, which stays, and those of places, which come and go.

    A place has one lane, for what measures. It is known by its machine's name; one that has this machine's
    is left out, for here is a post already.
    """

    def __init__(self, here: Post, places: Places | None, log: Log, now: Callable[[], datetime]) -> None:
        self._here, self._places = here, places
        self._log, self._now = log, now
        self._posts: dict[str, Post] = {}
        self._beats = 0
        #: Owners of posts that left in order, to be forgotten.
        self._left: set[str] = set()
        self._missing: set[str] = set()
        #: By machine the owners of what earlier services of this machine had there.
        self._former: dict[str, list[str]] = {}
        self._namesake = self._namesake_told = False

    @property
    def posts(self) -> list[Post]:
        """All of them, this machine's own first; also those that are gone and have something to end."""
        return [self._here, *self._posts.values()]

    def lanes(self) -> Iterator[Lane]:
        """The lanes of all posts."""
        return (lane for post in self.posts for lane in post.lanes)

    def ended(self) -> Iterator[Work]:
        """What is over; each is let go of when the next one is asked for."""
        for post in self.posts:
            for lane in post.lanes:
                if lane.work is not None and lane.work.ending is not None:
                    yield lane.work
                    post.heed(lane.work)
                    lane.work = None

    @property
    def newcomers(self) -> bool:
        """Whether anybody is there of whom the database was never told: it is, before they take anything."""
        return any(post.there and post.beats == 0 for post in self.posts)

    def works(self) -> list[Work]:
        """What is being done."""
        return [lane.work for lane in self.lanes() if lane.work is not None]

    def idle(self) -> list[tuple[Post, Lane]]:
        """The lanes that may claim something, each with its post."""
        now = time.monotonic()
        ready = [
            post
            for post in self.posts
            if post is self._here or (post.there and not post.drained and now >= post.rests_until)
        ]
        return [(post, lane) for post in ready for lane in post.lanes if lane.work is None]

    def look(self) -> None:
        """Take up who came, and let go of who is gone and has nothing left to do."""
        if self._places is None:
            return
        there: dict[str, PlaceSeen] = {}
        for each in self._places.look():
            there.setdefault(each.place.machine, each)
        self._namesake = there.pop(self._here.place.machine, None) is not None
        if self._namesake:
            self._tell_of_namesake()
        for machine, each in there.items():
            self._take(machine, each)
        for machine in sorted(self._posts.keys() - there.keys()):
            self._miss(machine, self._posts[machine])

    def tell(self, database: Database, served: Mapping[str, Any], version: str) -> None:
        """Say who is there, and forget who left in order; `served` are the facts of this service."""
        now = self._now()
        if self._beats == 0:
            self._forget_the_dead(database, now)
        self._beats += 1
        told = [post for post in self.posts if post.there and self._is_due(post)]
        seen_all(database, [self._seen(post, served, version, now) for post in told])
        for post in told:
            post.news, post.beats = False, post.beats + 1
        # Who is there again is told by us; what an earlier service said of it is over.
        back = [post.place.machine for post in told if post.place.machine in self._former]
        if over := self._left.union(*(self._former[machine] for machine in back)):
            gone_all(database, over)
            self._left.clear()
            for machine in back:
                del self._former[machine]

    def say_goodbye(self, database: Database) -> None:
        """Take back what was told of everybody who is there; who vanished before stays missing."""
        gone_all(database, {str(post.owner) for post in self.posts if post.there} | self._left)

    def close(self) -> None:
        """Look no more."""
        if self._places is not None:
            self._places.close()

    def _take(self, machine: str, each: PlaceSeen) -> None:
        post = self._posts.get(machine)
        self._missing.discard(machine)
        about = {"machine": machine, "labels": ",".join(each.place.labels)}
        if post is None:
            owner = replace(self._here.owner, machine=machine)
            lane = Lane(f"measuring on {machine}", MEASURING)
            post = Post(each.place, owner, (lane,), self._now(), each.place.labels)
            self._posts[machine] = post
            self._left.discard(str(owner))
            self._log("place came", about=about)
        elif not post.there:
            self._log("place came back", about=about)
        if each.drained and not post.drained:
            post.close_up()
            self._log("place drained", "it takes nothing new", {"machine": machine})
        known = (post.there, post.labels, post.drained, post.facts)
        post.news |= known != (True, each.place.labels, each.drained, each.facts)
        post.place, post.labels, post.facts = each.place, each.place.labels, each.facts
        post.drained, post.only_by, post.there = each.drained, each.only_by, True

    def _miss(self, machine: str, post: Post) -> None:
        if post.there:
            post.there = False
            post.close_up()
            if post.drained:
                self._log("place left", about={"machine": machine})
            else:
                self._missing.add(machine)
                self._log("place vanished", "it was not drained before", {"machine": machine}, "warning")
        if post.drained and not post.busy:
            self._left.add(str(post.owner))
        if not post.busy and (post.drained or not post.is_remembered):
            del self._posts[machine]

    def _tell_of_namesake(self) -> None:
        if not self._namesake_told:
            self._namesake_told = True
            self._log("place refused", _NAMESAKE, {"machine": self._here.place.machine}, "warning")

    def _is_due(self, post: Post) -> bool:
        return post is self._here or post.news or self._beats % _TOLD_EVERY == 0

    def _seen(self, post: Post, served: Mapping[str, Any], version: str, now: datetime) -> SchedulerSeen:
        if post is not self._here:
            version = str(post.facts.get("version") or version)
        return SchedulerSeen(
            owner=str(post.owner),
            machine=post.place.machine,
            labels=post.labels,
            started_at=post.started_at,
            seen_at=now,
            beats=post.beats + 1,
            version=version,
            facts=self._own(served) if post is self._here else self._facts(post, served),
        )

    def _own(self, served: Mapping[str, Any]) -> Mapping[str, Any]:
        """What is told of this service: with it who cannot be used, or is gone, which nobody else knows."""
        if self._places is None:
            return served
        found = [*self._places.troubles(), *([_NAMESAKE] if self._namesake else [])]
        told = {"troubles": found[:_TROUBLES], "missing": sorted(self._missing)}
        return {**served, **{name: each for name, each in told.items() if each}}

    def _facts(self, post: Post, served: Mapping[str, Any]) -> dict[str, Any]:
        """What is told of a place: it plans nothing, so the timetable is left out."""
        usual = {name: value for name, value in served.items() if name != "schedules"}
        mine = {"measures": not post.drained, "head": self._here.place.machine, "node": dict(post.facts)}
        return usual | mine

    def _forget_the_dead(self, database: Database, now: datetime) -> None:
        """Take back what services said that were killed on this machine and can say nothing any more.

        What they said of a place stays for as long as that is not seen here: it may have vanished meanwhile.
        """
        mine, over = self._here.place.machine, list[str]()
        former: dict[str, list[str]] = defaultdict(list)
        for other in schedulers(database):
            ours = mine in (other.machine, other.facts.get("head"))
            silent = ours and now - other.seen_at > _FORGOTTEN
            if silent or dead_process(other.owner, self._here.owner) is not None:
                stays = self._places is not None and other.machine != mine
                (former[other.machine] if stays else over).append(other.owner)
        if over:
            gone_all(database, over)
        self._former = former
