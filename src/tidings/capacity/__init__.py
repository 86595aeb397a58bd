"""Capacity models: processing time, service time, waiting, batching, replication, planning.

From the bottom up; everything here is a pure function of its arguments, but for `online`:

| module | content |
|---|---|
| `processing` | how long one message occupies the server: the models, and what follows from their parameters |
| `fitting`, `recursive_fit` | the parameters, and the model, that a set of measurements supports |
| `thesis` | parameter sets of five servers measured in the literature |
| `service` | how the service time varies with the replication grade: its first three moments |
| `waiting`, `network_waiting` | how long a message waits: the Gamma-approximation, at one server and on a path |
| `batching`, `batch_fluid` | a server that takes messages in batches |
| `traffic`, `cost_model`, `cost_fit`, `cost_file` | what a message costs, as calibrated on a running broker |
| `cost_answers` | the planner's answers from it, with intervals |
| `replication`, `receivers` | what several servers carry: publisher-side, subscriber-side, a B-DRP network |
| `planner`, `sizing` | how much, with which waiting time; and the reverse |
| `batch_costs`, `online`, `online_batches`, `running_model` | estimates of a running broker, by its own counters |

Exact, discrete-time and simulated queues, which the approximations are checked against, are in `hardening/queueing`.
"""
