package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// launchTimeout bounds a launch, in addition to its waitSeconds.
const launchTimeout = 3 * time.Minute

// maxWait is the longest waitSeconds.
const maxWait = 600

type launchInput struct {
	ProfileID      string         `json:"profileId,omitempty" jsonschema:"id (UUID) of the profile whose identity and data the browser uses; without it the browser has a temporary profile"`
	BrowserVersion int            `json:"browserVersion,omitempty" jsonschema:"major version of the browser; only without profileId"`
	OS             string         `json:"os,omitempty" jsonschema:"operating system that the browser shows to pages: windows, macos, linux or android; only without profileId"`
	Locale         string         `json:"locale,omitempty" jsonschema:"language of the browser, such as de-DE"`
	Headless       *bool          `json:"headless,omitempty" jsonschema:"false gives the browser a window that a person can view; default true"`
	Proxy          string         `json:"proxy,omitempty" jsonschema:"proxy of this browser, such as socks5://user:password@host:1080"`
	WaitSeconds    int            `json:"waitSeconds,omitempty" jsonschema:"how long to wait for a free slot, up to 600; default 0"`
	State          map[string]any `json:"state,omitempty" jsonschema:"cookies and storage to start with, as storage_state returns them (Playwright's storageState)"`
	Extensions     []string       `json:"extensions,omitempty" jsonschema:"ids of extensions of the worker that the browser loads"`
	KeepAlive      bool           `json:"keepAlive,omitempty" jsonschema:"true keeps the browser running after this session has ended"`
}

// body returns the launch as the body of POST /sessions/profile.
func (input launchInput) body() ([]byte, error) {
	body := map[string]any{}
	browser := map[string]any{"keepAlive": input.KeepAlive}
	spec := map[string]any{}
	if input.BrowserVersion != 0 {
		spec["browserVersion"] = input.BrowserVersion
	}
	if input.OS != "" {
		spec["os"] = input.OS
	}
	if input.ProfileID != "" {
		body["profileId"] = input.ProfileID
	}
	if input.ProfileID == "" || len(spec) > 0 {
		body["spec"] = spec
	}
	if input.Locale != "" {
		browser["locale"] = input.Locale
	}
	if input.Headless != nil {
		browser["headless"] = *input.Headless
	}
	if len(input.Extensions) > 0 {
		browser["extensions"] = input.Extensions
	}
	if input.State != nil {
		browser["state"] = input.State
	}
	if input.WaitSeconds != 0 {
		body["waitSeconds"] = input.WaitSeconds
	}
	body["browser"] = browser
	if input.Proxy != "" {
		proxy, ok := launch.ParseProxy(input.Proxy)
		if !ok {
			return nil, toolError("proxy: must be a URL such as socks5://proxy.example:1080, with user and password before an @ if it needs them.")
		}
		body["proxyOverride"] = proxy
	}
	return json.Marshal(body)
}

type endInput struct{ onBrowser }

func (s *Service) addBrowserTools(server *sdk.Server) {
	wait := func(input launchInput) time.Duration {
		return launchTimeout + time.Duration(min(max(input.WaitSeconds, 0), maxWait))*time.Second
	}
	addTool(s, server, "launch_browser", "Launch a browser, with a profile or a temporary one. Returns its handle, such as b1. End it with end_browser when it is no longer needed.", wait, s.launchBrowser)
	short := func(struct{}) time.Duration { return pageTimeout }
	addTool(s, server, "list_browsers", "List the browsers of this session.", short, s.listBrowsers)
	addTool(s, server, "end_browser", "End a browser. Its profile's data is saved if the profile keeps data.", func(endInput) time.Duration { return pageTimeout }, s.endBrowser)
}

func (s *Service) launchBrowser(ctx context.Context, client *clientSession, input launchInput) (result, error) {
	body, err := input.body()
	if err != nil {
		return result{}, err
	}
	request, err := s.Parse(body)
	if err != nil {
		return result{}, err
	}
	request.OrganizationKey, request.Client, request.OperatorNetwork = client.caller.key, client.caller.client, s.Network
	launched, err := s.Launches.Launch(ctx, request)
	if err != nil {
		return result{}, err
	}
	b := newBrowser(launched, request.KeepAlive)
	if !client.add(b) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		if err := client.kill(ctx, b, session.ClientClose); err != nil {
			s.Logger.Error("failed to end browser", "launchId", b.launchID, "error", err)
		}
		return result{}, toolError("This session has ended. Connect again.")
	}
	note := fmt.Sprintf("Launched %s. A person who has the worker key can watch it at %s/#/sessions/%s.", b.describe(), s.Address, launched.ID)
	if recording := launched.Recording; recording != nil && recording.Failure != "" {
		note += " Its recording could not start: " + recording.Failure + "."
	}
	return result{note: note}, nil
}

func (s *Service) listBrowsers(_ context.Context, client *clientSession, _ struct{}) (result, error) {
	var lines []string
	for _, b := range client.list() {
		state := ""
		if s.hasEnded(b) {
			client.remove(b)
			state = ", has ended"
		}
		lines = append(lines, b.describe()+state)
	}
	if len(lines) == 0 {
		return result{note: "No browser is open. Call launch_browser."}, nil
	}
	return result{note: joinLines(lines...)}, nil
}

func (b *browser) describe() string {
	kind := "with a window"
	if b.headless {
		kind = "headless"
	}
	keep := ""
	if b.keepAlive {
		keep = ", keeps running after this session"
	}
	return fmt.Sprintf("browser %s (version %d, %s, profile %s%s)", b.name, b.version, kind, quote(b.profile), keep)
}

func (s *Service) endBrowser(ctx context.Context, client *clientSession, input endInput) (result, error) {
	b, err := client.browser(input.handle())
	if err != nil {
		return result{}, err
	}
	if err := client.kill(ctx, b, session.ByRequest); err != nil {
		return result{}, err
	}
	client.remove(b)
	return result{note: fmt.Sprintf("Browser %s has ended.", b.name)}, nil
}
