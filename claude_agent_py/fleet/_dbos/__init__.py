"""The engine on DBOS: sessions in PostgreSQL, each prompt a workflow in a queue of its agent."""
