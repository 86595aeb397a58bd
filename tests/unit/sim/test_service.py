from tidings.sim.calendar import Calendar
from tidings.sim.service import ServiceModel, ServiceQueue


def test_times_grow_with_the_table_and_packed_changes_are_worked_off_one_by_one() -> None:
    model = ServiceModel(publication_ms=1, publication_entry_ms=0.5, control_ms=2, control_entry_ms=0.1)
    assert model.publication(10) == 6
    assert model.control(10) == 3
    assert model.control(10, changes=4) == 6


def test_a_queue_keeps_order_and_serves_one_at_a_time() -> None:
    calendar = Calendar()
    done: list[tuple[float, int]] = []
    work = {"factor": 1.0}

    def finish(item: int) -> None:
        done.append((calendar.now, item))
        work["factor"] = 2.0  # a change by one message counts for the next

    queue: ServiceQueue[int] = ServiceQueue(calendar, lambda item: item * work["factor"], finish)
    for item in (3, 5):
        queue.put(item)
    calendar.at(20.0, queue.put, 1)
    calendar.run()
    assert done == [(3.0, 3), (13.0, 5), (22.0, 1)]
    assert (len(queue), queue.length_max, queue.busy_ms) == (0, 2, 15.0)


def test_what_waits_can_be_dropped_but_not_what_is_served() -> None:
    calendar = Calendar()
    done: list[int] = []
    queue: ServiceQueue[int] = ServiceQueue(calendar, lambda item: 1.0, done.append)
    for item in range(6):
        queue.put(item)
    assert queue.drop(lambda item: item % 2 == 0) == [2, 4]
    calendar.run()
    assert done == [0, 1, 3, 5]
