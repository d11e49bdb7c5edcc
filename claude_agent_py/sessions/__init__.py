"""Conversations on disk and in stores: list, read, search and change them, without a process.

The functions are synchronous and block while they read files of the CLI's folder. `StoredSessions` does the same jobs
in async programs, in that folder or in a session store. `config_dir` is a configuration folder other than
`CLAUDE_CONFIG_DIR` or `~/.claude`.
"""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py._base.errors import (
        SessionBusyError as SessionBusyError,
        SessionError as SessionError,
        SessionInUseError as SessionInUseError,
        SessionLeasedError as SessionLeasedError,
        SessionNotFoundError as SessionNotFoundError,
        StaleLeaseError as StaleLeaseError,
        StoreError as StoreError,
    )
    from claude_agent_py.sessions.changes import (
        archive_session as archive_session,
        delete_session as delete_session,
        fork_session as fork_session,
        rename_session as rename_session,
        tag_session as tag_session,
        unarchive_session as unarchive_session,
    )
    from claude_agent_py.sessions.folders import project_key_for_directory as project_key_for_directory
    from claude_agent_py.sessions.index import get_session_info as get_session_info, list_sessions as list_sessions
    from claude_agent_py.sessions.info import SessionInfo as SessionInfo
    from claude_agent_py.sessions.lines import DamagedLine as DamagedLine
    from claude_agent_py.sessions.processes import (
        RunningProcess as RunningProcess,
        RunningSession as RunningSession,
        running_sessions as running_sessions,
    )
    from claude_agent_py.sessions.prompt_entries import (
        LOCAL_COMMANDS as LOCAL_COMMANDS,
        get_message as get_message,
        is_prompt as is_prompt,
    )
    from claude_agent_py.sessions.search import SearchHit as SearchHit, search_sessions as search_sessions
    from claude_agent_py.sessions.stored_session import (
        SessionUsage as SessionUsage,
        StoredSession as StoredSession,
        get_session as get_session,
        get_session_messages as get_session_messages,
        get_subagent_messages as get_subagent_messages,
        list_subagents as list_subagents,
    )
    from claude_agent_py.sessions.stored_sessions import StoredSessions as StoredSessions
    from claude_agent_py.sessions.stored_tasks import StoredTask as StoredTask
    from claude_agent_py.sessions.stores.base import fold_session_summary as fold_session_summary
    from claude_agent_py.sessions.stores.copies import (
        copy_session as copy_session,
        deliver_session as deliver_session,
        export_session as export_session,
        import_session as import_session,
        push as push,
    )
    from claude_agent_py.sessions.stores.directory import DirectoryStore as DirectoryStore
    from claude_agent_py.sessions.stores.leases import HeldLease as HeldLease
    from claude_agent_py.sessions.stores.memory import MemoryStore as MemoryStore
    from claude_agent_py.sessions.stores.postgres import PostgresStore as PostgresStore
    from claude_agent_py.sessions.stores.protocol import (
        FullSessionStore as FullSessionStore,
        Lease as Lease,
        LeasingStore as LeasingStore,
        SessionKey as SessionKey,
        SessionListSubkeysKey as SessionListSubkeysKey,
        SessionStore as SessionStore,
        SessionStoreEntry as SessionStoreEntry,
        SessionStoreListEntry as SessionStoreListEntry,
        SessionSummaryEntry as SessionSummaryEntry,
        calling_store as calling_store,
        implements as implements,
    )
    from claude_agent_py.sessions.stores.redis import RedisStore as RedisStore
    from claude_agent_py.sessions.stores.s3 import S3Store as S3Store
    from claude_agent_py.sessions.stores.sqlite import SQLiteStore as SQLiteStore
    from claude_agent_py.sessions.transcript import StoredSubagent as StoredSubagent, Transcript as Transcript
    from claude_agent_py.tasks.files.transcript import TranscriptMessage as TranscriptMessage
else:
    _NAMES = {
        "claude_agent_py._base.errors": """
            SessionBusyError SessionError SessionInUseError SessionLeasedError SessionNotFoundError StaleLeaseError
            StoreError
        """,
        "claude_agent_py.sessions.changes": """
            archive_session delete_session fork_session rename_session tag_session unarchive_session
        """,
        "claude_agent_py.sessions.folders": "project_key_for_directory",
        "claude_agent_py.sessions.index": "get_session_info list_sessions",
        "claude_agent_py.sessions.info": "SessionInfo",
        "claude_agent_py.sessions.lines": "DamagedLine",
        "claude_agent_py.sessions.processes": "RunningProcess RunningSession running_sessions",
        "claude_agent_py.sessions.search": "SearchHit search_sessions",
        "claude_agent_py.sessions.stored_session": """
            StoredSession SessionUsage get_session get_session_messages get_subagent_messages list_subagents
        """,
        "claude_agent_py.sessions.stored_sessions": "StoredSessions",
        "claude_agent_py.sessions.stored_tasks": "StoredTask",
        "claude_agent_py.sessions.prompt_entries": "LOCAL_COMMANDS get_message is_prompt",
        "claude_agent_py.sessions.stores.base": "fold_session_summary",
        "claude_agent_py.sessions.stores.copies": "copy_session deliver_session export_session import_session push",
        "claude_agent_py.sessions.stores.directory": "DirectoryStore",
        "claude_agent_py.sessions.stores.leases": "HeldLease",
        "claude_agent_py.sessions.stores.memory": "MemoryStore",
        "claude_agent_py.sessions.stores.postgres": "PostgresStore",
        "claude_agent_py.sessions.stores.protocol": """
            FullSessionStore Lease LeasingStore SessionKey SessionListSubkeysKey SessionStore SessionStoreEntry
            SessionStoreListEntry SessionSummaryEntry calling_store implements
        """,
        "claude_agent_py.sessions.stores.redis": "RedisStore",
        "claude_agent_py.sessions.stores.s3": "S3Store",
        "claude_agent_py.sessions.stores.sqlite": "SQLiteStore",
        "claude_agent_py.sessions.transcript": "StoredSubagent Transcript",
        "claude_agent_py.tasks.files.transcript": "TranscriptMessage",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)
