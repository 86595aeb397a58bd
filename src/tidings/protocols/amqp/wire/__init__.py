"""The bytes of AMQP 1.0, without I/O: types, values and performatives."""
