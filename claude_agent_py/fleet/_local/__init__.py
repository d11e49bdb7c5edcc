"""The engine for one machine: sessions in one SQLite file, run by workers that lease them."""
