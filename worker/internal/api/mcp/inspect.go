package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/browser-svc/svc/worker/internal/api/pagelog"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

const (
	maxMessages = 100 // of the console, in one result
	maxLine     = 500 // characters of a message or address
)

type evaluateInput struct {
	onBrowser
	Expression string `json:"expression" jsonschema:"JavaScript expression; a promise is awaited; the value must be JSON"`
}

type consoleInput struct {
	onBrowser
	Errors bool `json:"errors,omitempty" jsonschema:"true returns only errors and uncaught exceptions"`
}

type networkInput struct {
	onBrowser
	Contains string `json:"contains,omitempty" jsonschema:"only requests whose address contains this text"`
	Failed   bool   `json:"failed,omitempty" jsonschema:"true returns only requests that failed or have a status of 400 or more"`
}

func (s *Service) addInspectionTools(server *sdk.Server) {
	addPageTool(s, server, "evaluate", "Evaluate a JavaScript expression in the page and return its value as JSON.", func(ctx context.Context, p pageCall, input evaluateInput) (result, error) {
		return p.evaluateJSON(ctx, input.Expression)
	})
	addPageTool(s, server, "console_messages", "List the newest console messages and uncaught exceptions of the selected tab. The first call has those of the current page; later calls also those of the pages between.", func(ctx context.Context, p pageCall, input consoleInput) (result, error) {
		return p.consoleMessages(ctx, input.Errors)
	})
	addPageTool(s, server, "network_requests", "List the newest requests of the selected tab, with method, status, type and address.", func(ctx context.Context, p pageCall, input networkInput) (result, error) {
		return p.networkRequests(ctx, input)
	})
	addPageTool(s, server, "storage_state", "Return the cookies and the storage of the browser, for the argument state of launch_browser. They can contain credentials.", func(ctx context.Context, p pageCall, _ pageInput) (result, error) {
		return p.storageState(ctx)
	})
}

func (p pageCall) evaluateJSON(ctx context.Context, expression string) (result, error) {
	var answer struct {
		Result struct {
			Type  string
			Value json.RawMessage
		}
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := p.call(ctx, p.tab, "Runtime.evaluate", map[string]any{
		"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true,
	}, &answer)
	if refusal, ok := errors.AsType[*cdp.Error](err); ok {
		return result{}, toolError("The value cannot be returned as JSON: " + refusal.Message + ".")
	}
	if err != nil {
		return result{}, err
	}
	if thrown := answer.ExceptionDetails; thrown != nil {
		return result{}, toolError("The expression failed. " + mark(shorten(strings.TrimSpace(thrown.Text+" "+thrown.Exception.Description), maxText)))
	}
	value := string(answer.Result.Value)
	if value == "" {
		value = answer.Result.Type
	}
	short := shorten(value, maxText)
	if short != value {
		return result{note: fmt.Sprintf("The value was cut after %d characters.", maxText), content: short}, nil
	}
	return result{content: short}, nil
}

func (p pageCall) consoleMessages(ctx context.Context, errorsOnly bool) (result, error) {
	launch, err := p.access()
	if err != nil {
		return result{}, err
	}
	log, err := p.service.Logs.Open(ctx, launch)
	if err != nil {
		return result{}, err
	}
	var lines []string
	for _, e := range log.After(0, pagelog.MaxEntries).Entries {
		if e.TargetID != p.tab.target || errorsOnly && e.Level != pagelog.Error {
			continue
		}
		line := fmt.Sprintf("[%s] %s", e.Level, shorten(e.Text, maxLine))
		if e.URL != "" {
			line += fmt.Sprintf(" (%s:%d)", shorten(e.URL, maxURL), e.Line)
		}
		lines = append(lines, line)
	}
	return newest(lines, maxMessages, "messages"), nil
}

// newest returns the last lines of a list.
func newest(lines []string, most int, things string) result {
	if len(lines) == 0 {
		return result{note: "There are no " + things + "."}
	}
	note := ""
	if all := len(lines); all > most {
		lines = lines[all-most:]
		note = fmt.Sprintf("These are the newest %d of %d %s.", most, all, things)
	}
	return result{note: note, content: joinLines(lines...)}
}

func (p pageCall) storageState(ctx context.Context) (result, error) {
	launch, err := p.access()
	if err != nil {
		return result{}, err
	}
	state, err := p.service.Pages.State(ctx, launch, true)
	if err != nil {
		return result{}, err
	}
	raw, err := json.Marshal(state)
	if err != nil {
		return result{}, err
	}
	if len(raw) > maxBinary {
		return result{}, toolError(fmt.Sprintf("The state has %d bytes, more than the %d that can be returned here. The user gets it with GET /browsers/%s/state and the worker key.", len(raw), maxBinary, p.launchID))
	}
	return result{content: string(raw)}, nil
}
