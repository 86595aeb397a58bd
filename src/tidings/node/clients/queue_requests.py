"""Administration of queues: create, browse, move, purge, delete. None of it consumes as a consumer would.

Where message bytes are needed that only the store has, a request becomes a job that waits for them. Browsing and moving
go by pages: the answer says whether there is more.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from tidings.delivery.backlog import BacklogPosition, behind
from tidings.delivery.mailbox import Mailbox, MailboxKind
from tidings.errors import SecurityError, UsageError
from tidings.model.destination import Destination
from tidings.model.selector import Selector
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.clients.session import Connection
from tidings.node.clients.subscription_plan import is_temporary, restricted
from tidings.node.completions import AnswerRequest
from tidings.node.effects import Close
from tidings.node.encoded_message import expires_ms_of
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.message_filter import accepts, steps_taken
from tidings.node.network_queues.network_queues import NetworkQueues
from tidings.node.plane import Plane
from tidings.node.requests import Browse, CreateQueue, DeleteQueue, Done, Move, Purge

PAGE_MESSAGES_MAX = 256
PAGE_STEPS_MAX, STEPS_EACH = 2_000_000, 1_000  # of work for selectors in a page (node/message_filter.py)


@dataclass(slots=True)
class _Job:
    mailbox: Mailbox
    places: list[BacklogPosition]
    finish: Callable[[int, "_Job"], None]
    messages: dict[int, bytes] = field(default_factory=dict)
    missing: dict[int, BacklogPosition] = field(default_factory=dict)


class Queues:
    def __init__(
        self,
        plane: Plane,
        service: MailboxService,
        journal: Journal,
        outbox: AnswerBatch,
        network_queues: NetworkQueues | None,
    ) -> None:
        self._network_queues = network_queues
        self._plane = plane
        self._service = service
        self._journal = journal
        self._outbox = outbox
        self.jobs: list[_Job] = []  # under way

    # --- requests -------------------------------------------------------------------------------------------------

    def browse(self, now_ms: int, client: Connection, request: Browse) -> None:
        """Copies of what waits, as deliveries that need no acknowledgement; their tags name them."""
        mailbox = self._queue(client, "browse", request.queue)
        restriction = client.principal.restriction(request.queue, "browse")
        wanted = accepts(restricted(Selector(request.selector), restriction))
        count = min(request.count or PAGE_MESSAGES_MAX, PAGE_MESSAGES_MAX)
        scan = mailbox.backlog.scan(behind(request.after)) if request.after.seq else mailbox.backlog.scan()
        places = list(islice(scan, count + 1))
        more = len(places) > count

        def show(now_ms: int, job: _Job) -> None:
            def fits(place: BacklogPosition, message: bytes) -> bool:
                there = mailbox.backlog.holds(place) and not _late(message, now_ms)
                return there and (wanted is None or wanted(message))

            if client.number in self._outbox.connected:
                last, cut = self._show(client.number, request, job, fits, selects=wanted is not None)
                position = {"seq": last.seq, "priority": last.priority, "more": more or cut}
                self._outbox.answer(client.number, Done(request.receipt, position))

        self._start(now_ms, _Job(mailbox, places[:count], show))

    def _show(
        self,
        connection: int,
        request: Browse,
        job: _Job,
        fits: Callable[[BacklogPosition, bytes], bool],
        *,
        selects: bool,
    ) -> tuple[BacklogPosition, bool]:
        """The place to go on behind, and whether the page was cut short: the output has no more room, or its selector
        takes too long."""
        room, last, cut = self._plane.room(connection), request.after, False
        tags: list[int] = []
        steps = 0
        for place in job.places:
            message = job.messages.get(place.seq)
            if message is not None and fits(place, message):
                if tags and len(message) > room:
                    cut = True
                    break
                room -= len(message)
                tags.append(place.seq)
            last = place
            steps += STEPS_EACH + steps_taken() if selects else 0
            if steps > PAGE_STEPS_MAX:
                cut = place is not job.places[-1]
                break
        attempts, messages = [job.mailbox.deliveries(seq) + 1 for seq in tags], [job.messages[seq] for seq in tags]
        self._plane.deliver(connection, request.subscription, attempts, tags, messages)
        return last, cut

    def purge(self, client: Connection, request: Purge) -> None:
        """Delete waiting messages: all, or those with these tags."""
        mailbox = self._queue(client, "manage", request.queue)
        if request.tags:
            places = self._places(mailbox, request.tags)
            for place in places:
                mailbox.backlog.remove(place)
                mailbox.finish(place.seq)
            seqs = [place.seq for place in places]
        else:
            seqs = mailbox.purge()
        self._service.finished(mailbox, seqs)
        done = Done(request.receipt, {"count": len(seqs), "more": False})
        self._journal.then_changed(AnswerRequest(client.number, done))

    def move(self, now_ms: int, client: Connection, request: Move) -> None:
        """To the end of another queue, in one batch with their end here."""
        mailbox = self._queue(client, "manage", request.queue)
        target = Destination.parse(request.target)
        if not target.queue or str(target) == mailbox.name:
            raise UsageError("E_QUEUE_TARGET", f"{request.target!r} is not another queue")
        if not client.principal.may("publish", str(target)):
            raise SecurityError("E_FORBIDDEN", f"{client.principal.name} may not publish to {target}")
        if request.tags:
            places = self._places(mailbox, request.tags)
        else:
            places = list(islice(mailbox.backlog.scan(), PAGE_MESSAGES_MAX + 1))
        more = len(places) > PAGE_MESSAGES_MAX

        def shift(_: int, job: _Job) -> None:
            moved = 0
            for place in job.places:
                message = job.messages.get(place.seq)
                if message is not None and mailbox.backlog.holds(place):
                    mailbox.backlog.remove(place)
                    moved += self._service.dead_letters.move(mailbox, place, message, target)
            done = Done(request.receipt, {"count": moved, "more": more and moved > 0})
            self._journal.then(AnswerRequest(client.number, done))

        self._start(now_ms, _Job(mailbox, places[:PAGE_MESSAGES_MAX], shift))

    def create(self, client: Connection, request: CreateQueue) -> None:
        queue = self._named(client, "manage", request.queue)
        if is_temporary(queue):
            raise UsageError("E_QUEUE_TEMPORARY", f"{queue} is the name of a temporary queue; choose another name")
        if self._network_queues is not None:
            self._network_queues.check_here(str(queue))
        created = str(queue) not in self._service.mailboxes.by_name
        self._service.mailboxes.queue(queue, may_make=True, maker=client.number)
        self._journal.then_changed(AnswerRequest(client.number, Done(request.receipt, {"created": created})))

    def delete(self, client: Connection, request: DeleteQueue) -> None:
        """Also of messages that are with nobody at the moment, in a transaction or on their way from or to the disk,
        none is lost unless the deletion is forced."""
        mailbox = self._queue(client, "manage", request.queue)
        if not request.force:
            if count := len(mailbox.consumers):
                raise UsageError(
                    "E_QUEUE_BUSY", f"{mailbox.name} has {count} consumers; end them, or force the deletion"
                )
            if mailbox.messages or self._journal.is_storing(mailbox.number):
                reason = f"{mailbox.name} is not empty; purge it or force the deletion"
                raise UsageError("E_QUEUE_NOT_EMPTY", reason)
        done = Done(request.receipt, {"count": mailbox.messages})
        for connection in dict.fromkeys(one.connection for one in mailbox.consumers if one.output is None):
            self._outbox.add(Close(connection, "E_QUEUE_DELETED", f"{mailbox.name} was deleted"))
        self._service.remove(mailbox)
        self._journal.then_changed(AnswerRequest(client.number, done))

    # --- bytes from the store -------------------------------------------------------------------------------------

    def wanted(self) -> list[int]:
        return [seq for job in self.jobs for seq in job.missing] if self.jobs else []

    def loaded(self, now_ms: int, messages: Mapping[int, bytes]) -> None:
        for job in self.jobs:
            found = job.missing.keys() & messages.keys()
            job.messages.update((seq, messages[seq]) for seq in found)
            for seq in found:
                del job.missing[seq]
        self.settle(now_ms)

    def lost(self, seqs: Iterable[int]) -> None:
        """The store will never bring these."""
        for job in self.jobs:
            for seq in seqs:
                job.missing.pop(seq, None)

    def settle(self, now_ms: int) -> None:
        """Finish the jobs that wait for nothing any more; what has left its queue is not waited for."""
        jobs, self.jobs = self.jobs, []
        for job in jobs:
            job.missing = {seq: place for seq, place in job.missing.items() if job.mailbox.backlog.holds(place)}
            if job.missing:
                self.jobs.append(job)
            else:
                job.finish(now_ms, job)

    def _start(self, now_ms: int, job: _Job) -> None:
        for place in job.places:
            held = self._service.message_cache.get(place.seq)
            if held is None:
                job.missing[place.seq] = place
            else:
                job.messages[place.seq] = held.message
        if job.missing:
            self.jobs.append(job)
        else:
            job.finish(now_ms, job)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _named(self, client: Connection, operation: str, name: str) -> Destination:
        queue = Destination.parse(name)
        if not queue.queue:
            raise UsageError("E_QUEUE_NAME", f"{name!r} is not a queue: write queue:{queue.name}")
        if not client.principal.may(operation, str(queue)):
            raise SecurityError("E_FORBIDDEN", f"{client.principal.name} may not {operation} {queue}")
        return queue

    def _queue(self, client: Connection, operation: str, name: str) -> Mailbox:
        queue = self._named(client, operation, name)
        if self._network_queues is not None:
            self._network_queues.check_here(str(queue))
        mailbox = self._service.mailboxes.by_name.get(str(queue))
        if mailbox is None or mailbox.kind is not MailboxKind.QUEUE:
            raise UsageError("E_QUEUE_UNKNOWN", f"there is no {queue}")
        return mailbox

    @staticmethod
    def _places(mailbox: Mailbox, tags: Iterable[int]) -> list[BacklogPosition]:
        wanted = set(tags)
        return [place for place in mailbox.backlog.scan() if place.seq in wanted]


def _late(message: bytes, now_ms: int) -> bool:
    return 0 < expires_ms_of(message) <= now_ms
