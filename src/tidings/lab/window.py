"""Limits the messages in flight to the allowed number, and to what the server processes in a moment.

The same number for every server buries a slow one: 4000 messages for 320 receivers each are 1.3 million copies, half a
minute of work that has to be waited for before and after every run. So the window begins small, doubles whenever all of
it came back in less than `FLIGHT_S`, and halves when it took much longer. A fast server has the largest one at once, a
slow one is never without work either.

>>> window = SendWindow(largest=4000, smallest=20)
>>> window.update(0.0, sent=20, done=0)
>>> window.update(0.01, sent=40, done=20)  # 20 in 10 ms
>>> window.size
40
"""

FLIGHT_S = 0.1
REST_S = 0.002  # that the generator need not look, while there is work for much longer


class SendWindow:
    def __init__(self, largest: int, smallest: int) -> None:
        self._largest, self._smallest = largest, min(largest, smallest)
        self.size = self._smallest
        self.rest_s = 0.0
        self._since: float | None = None
        self.awaited = 0  # how many had been sent then; until they are done, nothing changes

    def update(self, now: float, sent: int, done: int) -> None:
        if done < self.awaited:
            return
        if self._since is not None:
            took = now - self._since
            self.rest_s = REST_S if took > FLIGHT_S / 3 else 0.0
            if took < FLIGHT_S:
                self.size = min(self._largest, 2 * self.size)
            elif took > 4 * FLIGHT_S:
                self.size = max(self._smallest, self.size // 2)
        if sent > done:
            self._since, self.awaited = now, sent
