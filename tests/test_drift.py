"""`scripts/drift.py` finds what the declarations of the TypeScript package have and our models do not."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / "scripts" / "drift.py"

KNOWN = """
/** A comment with { a brace and new_in_a_comment: string; */
declare type SDKBase = {
    uuid: string; // not 'a field': string;
    session_id: string;
};
export declare type SDKStatusMessage = SDKBase & {
    type: 'system';
    subtype: 'status';
    status: 'compacting' | null;
    nested?: { inner: (a: string) => Map<string, number>; };
};
export declare type SDKMessage = SDKStatusMessage | { new_in_a_union: string };
declare type SDKControlInterruptRequest = {
    subtype: 'interrupt';
    cancel_queued?: boolean;
};
declare type Source = 'remote' | 'host';
declare type SDKControlRenameSessionRequest = {
    subtype: 'rename_session';
    source?: Source | null;
};
declare type SDKControlGetHooksListingResponse = {
    hooks: { event: string; }[];
};
export declare type Options = {
    cwd?: string;
    additionalDirectories?: string[];
};
declare type SDKControlStopTaskRequest = { subtype: 'stop_task'; task_id: string; };
export declare interface Query extends AsyncGenerator<SDKMessage, void> {
    interrupt(): Promise<{ setPlanted(): void }>;
    mcpServerStatus(): Promise<void>;
}
export declare function listSessions(_options?: ListSessionsOptions): Promise<void>;
export declare function importSessionToStore(_id: string, _store: S, _options?: ImportOptions): Promise<void>;
export declare type ListSessionsOptions = { dir?: string; limit?: number; };
export declare type ImportOptions = { includeSubagents?: boolean; };
export declare const BUILTIN_TOOL_NAMES: readonly ['Agent'];
export declare class InMemorySessionStore implements SessionStore { append(key: string): Promise<void>; }
"""


def missing(tmp_path: Path, declarations: str) -> tuple[list[str], int]:
    """The indented lines that the script prints, and its status."""
    path = tmp_path / "sdk.d.ts"
    path.write_text(declarations)
    command = [sys.executable, str(SCRIPT), "--check", "--no-python", "--typescript", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return [line.strip() for line in done.stdout.splitlines() if line.startswith("  ")], done.returncode


def test_missing_features_are_printed(tmp_path: Path) -> None:
    nested = "SDKStatusMessage.nested -> StatusMessage"
    assert missing(tmp_path, KNOWN) == ([nested], 1)
    planted = (
        KNOWN.replace("session_id: string;", "session_id: string;\n    planted_in_base?: string;")
        .replace("cancel_queued?: boolean;", "cancel_queued?: boolean;\n    planted?: string[];")
        .replace("event: string;", "event: string; planted: number;")
        .replace("'remote' |", "'remote' | 'planted_word' |")
        .replace("cwd?: string;", "cwd?: string;\n    plantedOption?: { cwd: string };")
        .replace("interrupt(): Promise", "plantedMethod?(at: { x: number }): void;\n    interrupt(): Promise")
        .replace("limit?: number;", "limit?: number; plantedFilter?: boolean;")
        .replace("includeSubagents?: boolean;", "includeSubagents?: boolean; plantedSize?: number;")
        + "export declare function plantedFunction(_a: string): Promise<void>;\n"
        + "export declare const PLANTED_PREFIXES: readonly ['a'];\n"
        + "export declare class PlantedStore { }\n"
        + "declare type SDKPlantedMessage = { type: 'system'; subtype: 'planted'; };\n"
        + "declare type SDKControlPlantedRequest = { subtype: 'planted_request'; };\n"
    )
    lines, status = missing(tmp_path, planted)
    assert status == 1
    assert set(lines) == {
        nested,
        "SDKStatusMessage.planted_in_base -> StatusMessage",
        "SDKControlInterruptRequest.planted -> InterruptRequest",
        "SDKControlGetHooksListingResponse.hooks.planted -> HookListing",
        "Options.plantedOption",
        "plantedMethod",
        "listSessions(plantedFilter)",
        "importSessionToStore(plantedSize)",
        "plantedFunction",
        "PLANTED_PREFIXES",
        "PlantedStore",
        "SDKControlRenameSessionRequest.source: 'planted_word' -> RenameSessionRequest",
        "system/planted (SDKPlantedMessage)",
        "planted_request (SDKControlPlantedRequest)",
    }


def test_nothing_is_missing_where_all_is_known(tmp_path: Path) -> None:
    known = "".join(line for line in KNOWN.splitlines(keepends=True) if "nested" not in line)
    assert missing(tmp_path, known) == ([], 0)
