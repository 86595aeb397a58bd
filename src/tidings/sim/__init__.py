"""Virtual time, the physical network, faults, and the driver that runs a broker's machines in them."""
