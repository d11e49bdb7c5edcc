"""The engine on DBOS: sessions in PostgreSQL or SQLite, each prompt a workflow in a queue of its agent."""
