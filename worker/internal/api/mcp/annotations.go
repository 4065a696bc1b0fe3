package mcp

import sdk "github.com/modelcontextprotocol/go-sdk/mcp"

// annotationsOf returns what a tool does, for clients that ask their user before some tools.
// A tool that is not named here can destroy something: also a click can buy or delete.
func annotationsOf(tool string) *sdk.ToolAnnotations {
	switch tool {
	case "snapshot", "read_page", "screenshot", "wait_for", "console_messages", "network_requests", "storage_state", "list_tabs", "list_browsers",
		"list_files", "read_file":
		return &sdk.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: new(false)}
	case "launch_browser", "navigate", "go_back", "new_tab", "hover", "request_human":
		return &sdk.ToolAnnotations{DestructiveHint: new(false)}
	case "select_tab":
		return &sdk.ToolAnnotations{DestructiveHint: new(false), IdempotentHint: true}
	}
	return &sdk.ToolAnnotations{DestructiveHint: new(true)}
}
