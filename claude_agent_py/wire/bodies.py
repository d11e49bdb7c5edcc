"""The union of all requests across the pipe, either way.

Owns the list. Apart from `control`, because a session gets by with what the CLI asks: what it asks itself, it never
reads.
"""

from typing import Annotated, TypeAlias

from pydantic import Field

from claude_agent_py.wire import requests
from claude_agent_py.wire.control import RequestFromCLI
from claude_agent_py.wire.unions import tags_of

KnownControlRequest: TypeAlias = Annotated[
    RequestFromCLI
    | requests.InitializeRequest
    | requests.InterruptRequest
    | requests.EndSessionRequest
    | requests.RenameSessionRequest
    | requests.SetColorRequest
    | requests.SetHasSubscribersRequest
    | requests.CancelAsyncMessageRequest
    | requests.RewindFilesRequest
    | requests.SideQuestionRequest
    | requests.GenerateSessionTitleRequest
    | requests.ExportConversationRequest
    | requests.ClaimSessionRequest
    | requests.StopTaskRequest
    | requests.BackgroundTasksRequest
    | requests.GetTaskOutputRequest
    | requests.StartShellTaskRequest
    | requests.SetModelRequest
    | requests.SetPermissionModeRequest
    | requests.SetMaxThinkingTokensRequest
    | requests.ListModelsRequest
    | requests.ListPermissionRulesRequest
    | requests.ApplyFlagSettingsRequest
    | requests.GetSettingsRequest
    | requests.UpdateSettingsRequest
    | requests.GetHooksListingRequest
    | requests.SetMCPPermissionModeOverrideRequest
    | requests.GetContextUsageRequest
    | requests.GetSessionCostRequest
    | requests.GetUsageRequest
    | requests.GetBinaryVersionRequest
    | requests.GetStatusRequest
    | requests.GetPlanRequest
    | requests.GetWorkspaceDiffRequest
    | requests.MCPStatusRequest
    | requests.MCPSetServersRequest
    | requests.MCPReconnectRequest
    | requests.MCPToggleRequest
    | requests.MCPCallRequest
    | requests.MCPReadResourceRequest
    | requests.MCPAuthenticateRequest
    | requests.ReadFileRequest
    | requests.ListDirectoryRequest
    | requests.FileSuggestionsRequest
    | requests.SeedReadStateRequest
    | requests.RegisterRepoRootRequest
    | requests.SetCwdRequest
    | requests.ReloadPluginsRequest
    | requests.ReloadSkillsRequest
    | requests.ReloadOutputStylesRequest
    | requests.ReloadConnectorsRequest,
    Field(discriminator="subtype"),
]
KNOWN_CONTROL_REQUESTS = tags_of(KnownControlRequest, "subtype")
