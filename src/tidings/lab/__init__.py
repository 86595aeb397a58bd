"""The measuring harness: experiments on running message brokers.

The map, from the bottom up; everything here is a pure function of its arguments:

| module | answers |
|---|---|
| `processing` | how long one message occupies the server: the models, and what follows from their parameters |
| `fitting` | which parameters, and which model, a set of measurements supports |
| `thesis` | parameter sets of five servers measured in the literature |
| `service` | how the service time varies with the replication grade: its first three moments |
| `waiting` | how long a message waits: Takács, Pollaczek–Khintchine, the Gamma-approximation |
| `exact` | the same for M/M/1 and M/D/1, exactly |
| `discrete` | the same for GI/GI/1 by discrete-time analysis: slow, a reference |
| `lindley` | the same by simulation: a check on all others |
| `replication` | what several servers carry: publisher-side, subscriber-side, a B-DRP network |
| `planner` | how much, with which waiting time; and the reverse |
| `online` | the parameters, estimated from the counters of a running broker |
"""
