"""The files that tasks write: finding, reading and following them."""
