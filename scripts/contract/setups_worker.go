package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/workerapi"
)

var errNotListed = errors.New("the created resource is not in the list")

// launched is a running browser.
type launched struct{ id, session, token, guid, target string }

// newLaunch launches the seeded profile.
func (p *exampleRunner) newLaunch(ctx context.Context, headless bool) (*launched, error) {
	return p.launchWith(ctx, workerapi.BrowserSettings{Headless: &headless})
}

// launchWith launches the seeded profile with settings.
func (p *exampleRunner) launchWith(ctx context.Context, settings workerapi.BrowserSettings) (*launched, error) {
	worker, err := p.worker(p.seed.WorkerKey)
	if err != nil {
		return nil, err
	}
	response, err := requireSuccess(worker.LaunchProfileWithResponse(ctx, workerapi.LaunchProfileRequest{
		ProfileId: &p.seed.ProfileID, Browser: &settings,
	}))
	if err != nil {
		return nil, fmt.Errorf("launch a browser: %w", err)
	}
	session := response.JSON201.Data
	address, err := url.Parse(*session.WebSocketDebuggerUrl)
	if err != nil {
		return nil, err
	}
	l := &launched{id: session.LaunchId.String(), session: session.Id.String(), token: address.Query().Get("ct"), guid: path.Base(address.Path)}
	l.target, err = p.newTab(ctx, l)
	return l, err
}

// newTab opens a tab and returns its id.
func (p *exampleRunner) newTab(ctx context.Context, l *launched) (string, error) {
	status, answer, err := p.callBrowser(ctx, l, http.MethodPut, "/json/new", "")
	if err != nil {
		return "", err
	}
	var tab struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(answer, &tab); err != nil {
		return "", fmt.Errorf("open a tab: %d: %w", status, err)
	}
	return tab.ID, nil
}

// callBrowser sends a request for a route of a browser, with its control token. The body is JSON, or
// empty.
func (p *exampleRunner) callBrowser(ctx context.Context, l *launched, method, route, body string) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, p.workerURL+"/browsers/"+l.id+route, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := withHeader("X-Svc-Token", l.token).Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// workerSetups are the setups of the worker API.
func (p *exampleRunner) workerSetups() map[string]func(context.Context) (exampleSetup, error) {
	blank := func(context.Context) (exampleSetup, error) {
		return exampleSetup{body: map[string]any{"url": "about:blank"}}, nil
	}
	render := func(context.Context) (exampleSetup, error) {
		return exampleSetup{body: map[string]any{"url": "about:blank", "profileId": p.seed.ProfileID}}, nil
	}
	return map[string]func(context.Context) (exampleSetup, error){
		"renderScreenshot": render,
		"renderPdf":        render,
		"renderContent":    render,
		"listAndroidModels": func(context.Context) (exampleSetup, error) {
			return exampleSetup{query: map[string]string{"browserVersion": strconv.Itoa(int(p.seed.BrowserVersion))}}, nil
		},
		"launchProfile":        p.launchSetup,
		"getBrowserSession":    p.sessionSetup,
		"getSessionNetwork":    p.sessionSetup,
		"updateBrowserSession": p.sessionSetup,
		"killBrowserSession": func(ctx context.Context) (exampleSetup, error) {
			l, err := p.newLaunch(ctx, true)
			if err != nil {
				return exampleSetup{}, err
			}
			return exampleSetup{path: map[string]string{"sessionId": l.session}}, nil
		},
		"createExtension": func(context.Context) (exampleSetup, error) {
			content, err := packExtension()
			return exampleSetup{content: content}, err
		},
		"getExtension":    p.extensionSetup,
		"deleteExtension": p.extensionSetup,
		"drainWorker":     func(context.Context) (exampleSetup, error) { return exampleSetup{after: p.resumeWorker}, nil },
		"navigatePage":    blank,
		"closeBrowser":    p.tabSetup,
		"closeTarget":     p.tabSetup,
		"createWebDriverSession": func(context.Context) (exampleSetup, error) {
			return exampleSetup{body: map[string]any{"capabilities.alwaysMatch.svc:options.profileId": p.seed.ProfileID}, after: p.endOthers}, nil
		},
		"connectWebDriver":     p.webDriverSetup(""),
		"endWebDriverSession":  p.webDriverSetup(""),
		"getWebDriverState":    p.webDriverSetup("title"),
		"sendWebDriverCommand": p.webDriverSetup("url"),
		"deleteWebDriverState": p.webDriverSetup("cookie"),
		"launchBrowser":        p.launchSocketSetup,
		"launchPlaywright":     p.launchSocketSetup,
		"createFile": func(context.Context) (exampleSetup, error) {
			return exampleSetup{path: map[string]string{"file": "photo.png"}}, nil
		},
		"downloadFile":            p.fileSetup,
		"deleteFile":              p.fileSetup,
		"listSessionFiles":        p.fileSetup,
		"downloadSessionFile":     p.fileSetup,
		"deleteSessionFile":       p.fileSetup,
		"downloadSessionFiles":    p.fileSetup,
		"downloadRecording":       p.recordingSetup,
		"getRecordingEvents":      p.recordingSetup,
		"downloadRecordingFrames": p.recordingSetup,
		"getRecordingHar":         p.recordingSetup,
		"downloadRecordingTrace":  p.recordingSetup,
		"getRecordingScript":      p.scriptSetup,
		"openRecordingPlayer":     p.recordingSetup,
		"openTraceViewer":         p.recordingSetup,
		"getTraceViewerFile":      p.recordingSetup,
		"createRecordingTicket":   p.recordingSetup,
		"startRecording":          p.unrecordedSetup,
		"endRecording":            p.recordedSetup,

		"openMcpStream": p.mcpSetup,
		"endMcpSession": p.mcpSetup,
	}
}

// launchSocketSetup is a setup with the seeded profile.
func (p *exampleRunner) launchSocketSetup(context.Context) (exampleSetup, error) {
	return exampleSetup{query: map[string]string{"profileId": p.seed.ProfileID.String()}}, nil
}

// mcpSetup begins an MCP session.
func (p *exampleRunner) mcpSetup(ctx context.Context) (exampleSetup, error) {
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"contract","version":"1.0"}}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.workerURL+"/mcp", strings.NewReader(initialize))
	if err != nil {
		return exampleSetup{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := withHeader("X-API-Key", p.seed.OrganizationKey).Do(r)
	if err != nil {
		return exampleSetup{}, err
	}
	_ = response.Body.Close()
	id := response.Header.Get("Mcp-Session-Id")
	if id == "" {
		return exampleSetup{}, fmt.Errorf("begin an MCP session: %s", response.Status)
	}
	return exampleSetup{header: map[string]string{"X-API-Key": p.seed.OrganizationKey, "Mcp-Session-Id": id}}, nil
}

// launchSetup ends the browser after the example.
func (p *exampleRunner) launchSetup(ctx context.Context) (exampleSetup, error) {
	extension, err := p.newExtension(ctx)
	if err != nil {
		return exampleSetup{}, err
	}
	recorded, err := p.recordingSetup(ctx)
	return exampleSetup{
		body: map[string]any{
			"browser.extensions": []string{extension}, "browser.replay.har": recorded.path["sessionId"],
			"profileId": p.seed.ProfileID, "spec.browserVersion": p.seed.BrowserVersion, "browser.startUrls": []string{"about:blank"},
		},
		after: p.endOthers,
	}, err
}

// webDriverSetup is a setup with a new WebDriver session, which ends after the example.
func (p *exampleRunner) webDriverSetup(command string) func(context.Context) (exampleSetup, error) {
	return func(ctx context.Context) (exampleSetup, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.workerURL+"/wd/hub/session",
			strings.NewReader(`{"capabilities":{"alwaysMatch":{"webSocketUrl":true}}}`))
		if err != nil {
			return exampleSetup{}, err
		}
		response, err := withHeader("X-API-Key", p.seed.WorkerKey).Do(r)
		if err != nil {
			return exampleSetup{}, err
		}
		defer func() { _ = response.Body.Close() }()
		var created struct {
			Value struct{ SessionID, Message string }
		}
		if err := json.NewDecoder(response.Body).Decode(&created); err != nil || created.Value.SessionID == "" {
			return exampleSetup{}, fmt.Errorf("start a WebDriver session: %s %s (%w)", response.Status, created.Value.Message, err)
		}
		return exampleSetup{
			path:  map[string]string{"webDriverSessionId": created.Value.SessionID, "webDriverCommand": command},
			after: p.endOthers,
		}, nil
	}
}

// endOthers ends all sessions except the one that launch created.
func (p *exampleRunner) endOthers(ctx context.Context) error {
	worker, err := p.worker(p.seed.WorkerKey)
	if err != nil {
		return err
	}
	running, err := requireSuccess(worker.ListBrowserSessionsWithResponse(ctx, &workerapi.ListBrowserSessionsParams{Status: new(workerapi.BrowserSessionStatusFilter("running"))}))
	if err != nil {
		return err
	}
	for _, session := range running.JSON200.Data.Items {
		if p.launch != nil && session.Id == uuid.MustParse(p.launch.session) {
			continue
		}
		if _, err := requireSuccess(worker.KillBrowserSessionWithResponse(ctx, session.Id)); err != nil {
			return err
		}
	}
	return nil
}

func (p *exampleRunner) sessionSetup(ctx context.Context) (exampleSetup, error) {
	if p.launch == nil {
		var err error
		if p.launch, err = p.newLaunch(ctx, false); err != nil {
			return exampleSetup{}, err
		}
	}
	return exampleSetup{path: map[string]string{"sessionId": p.launch.session}}, nil
}

func (p *exampleRunner) resumeWorker(ctx context.Context) error {
	worker, err := p.worker(p.seed.WorkerKey)
	if err != nil {
		return err
	}
	_, err = requireSuccess(worker.ResumeWorkerWithResponse(ctx))
	return err
}

// fileSetup is a setup with a new file.
func (p *exampleRunner) fileSetup(ctx context.Context) (exampleSetup, error) {
	if p.launch == nil {
		if _, err := p.sessionSetup(ctx); err != nil {
			return exampleSetup{}, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, p.workerURL+"/browsers/"+p.launch.id+"/files/example.txt", strings.NewReader("content"))
	if err != nil {
		return exampleSetup{}, err
	}
	response, err := withHeader("X-Svc-Token", p.launch.token).Do(r)
	if err != nil {
		return exampleSetup{}, err
	}
	defer func() { _ = response.Body.Close() }()
	var added workerapi.LaunchFileResponse
	if err := json.NewDecoder(response.Body).Decode(&added); err != nil || added.Data.Id == "" {
		return exampleSetup{}, fmt.Errorf("upload a file: %s: %w", response.Status, err)
	}
	return exampleSetup{path: map[string]string{"file": added.Data.Id, "sessionId": p.launch.session}}, nil
}

// tabSetup is a setup with a new tab.
func (p *exampleRunner) tabSetup(ctx context.Context) (exampleSetup, error) {
	if p.launch == nil {
		if _, err := p.sessionSetup(ctx); err != nil {
			return exampleSetup{}, err
		}
	}
	tab, err := p.newTab(ctx, p.launch)
	return exampleSetup{path: map[string]string{"targetId": tab}, body: map[string]any{"targetId": tab}}, err
}
