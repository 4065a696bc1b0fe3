package launchsock

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cdp/intercept"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// Headers of Playwright's clients.
const (
	launchOptionsHeader = "x-playwright-launch-options"
	browserHeader       = "x-playwright-browser"
	exposeNetworkHeader = "x-playwright-proxy"
)

// playwright answers a client of Playwright: the launch has Playwright's server beside it.
func (s *Service) playwright(c echo.Context) error {
	var programs browser.PlaywrightPrograms
	return s.serve(c, route{
		read: func(r *http.Request, parsed *launchRequest) (err error) {
			if err := parsed.readPlaywrightHeaders(r.Header, &programs); err != nil {
				return err
			}
			return s.Playwright(r.UserAgent(), &programs)
		},
		connect: func(ctx context.Context, running launch.Running, header http.Header) (*upstream, error) {
			server, err := running.Browser.StartPlaywright(ctx, programs)
			if err != nil {
				return nil, fault.Wrap(err, fault.Internal, "Playwright's server did not start.")
			}
			up, err := ws.DialUpstream(ctx, server.Dial, browser.DriverAddress, browser.PlaywrightPath, header)
			if err != nil {
				server.Close()
				return nil, fault.Wrap(err, fault.Internal, "Playwright's server did not start.")
			}
			return &upstream{
				Upstream: up, release: server.Close, endReason: session.Crash,
				relay: intercept.RelayOptions{Done: running.Browser.Done(), Watch: running.Activity.Watch},
			}, nil
		},
	})
}

// readPlaywrightHeaders adds the launch options of Playwright to a launch. What the URL says
// takes precedence: Playwright Test always sends options.
func (a *launchRequest) readPlaywrightHeaders(header http.Header, programs *browser.PlaywrightPrograms) error {
	var details []fault.Detail
	if name := header.Get(browserHeader); name != "" && name != "chromium" {
		details = append(details, fault.Detail{Field: browserHeader, Code: fault.InvalidEnumValue, Message: "must be chromium: this worker has no other browsers", Received: name})
	}
	if header.Get(exposeNetworkHeader) != "" {
		details = append(details, fault.Detail{Field: exposeNetworkHeader, Code: fault.Custom, Message: "is not supported: connect without exposeNetwork"})
	}
	if text := header.Get(launchOptionsHeader); text != "" {
		more, err := a.readLaunchOptions(text, programs)
		if err != nil {
			return err
		}
		details = append(details, more...)
	}
	return refuse(details)
}

// launchOptions are the options of Playwright that a launch has.
type launchOptions struct {
	Args     []string           `json:"args"`
	Headless *bool              `json:"headless"`
	Proxy    map[string]*string `json:"proxy"`
	Timeout  *float64           `json:"timeout"` // of the start, in milliseconds; 0 is unlimited
	SlowMo   float64            `json:"slowMo"`  // in milliseconds
	Channel  string             `json:"channel"`
}

// ignoredOptions are about the machine of Playwright's server. Playwright Test sends some of
// them always. The sandbox of the browser stays on.
func ignoredOptions() []string {
	return []string{"handleSIGINT", "handleSIGTERM", "handleSIGHUP", "tracesDir", "artifactsDir", "downloadsPath", "chromiumSandbox"}
}

// readLaunchOptions reads the launch options, a JSON object.
func (a *launchRequest) readLaunchOptions(text string, programs *browser.PlaywrightPrograms) (details []fault.Detail, err error) {
	var given map[string]json.RawMessage
	var options launchOptions
	if json.Unmarshal([]byte(text), &given) != nil || json.Unmarshal([]byte(text), &options) != nil {
		return nil, fault.Field(launchOptionsHeader, "must be a JSON object with launch options of Playwright")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		field := launchOptionsHeader + "." + name
		switch {
		case string(given[name]) == "null", slices.Contains(ignoredOptions(), name):
		case name == "channel":
			if options.Channel != "" && options.Channel != "chromium" {
				details = append(details, fault.Detail{Field: field, Code: fault.InvalidEnumValue, Message: "must be chromium: choose the version with browserVersion", Received: options.Channel})
			}
		case !slices.Contains([]string{"args", "headless", "proxy", "timeout", "slowMo"}, name):
			details = append(details, fault.Detail{Field: field, Code: fault.UnrecognizedKey, Message: "is not supported: the worker starts the browser. Supported are args, headless, proxy, timeout and slowMo"})
		}
	}
	if options.Timeout != nil && *options.Timeout > 0 {
		a.startTimeout = time.Duration(min(*options.Timeout, maxTimeout) * float64(time.Millisecond))
	}
	programs.SlowMo = max(0, min(int(options.SlowMo), maxTimeout))
	return details, a.merge(options)
}

// merge adds options to the launch that it does not have.
func (a *launchRequest) merge(options launchOptions) (err error) {
	var body, settings map[string]json.RawMessage
	if json.Unmarshal(a.body, &body) != nil || body["browser"] != nil && json.Unmarshal(body["browser"], &settings) != nil {
		return nil // Parse refuses it
	}
	if settings == nil {
		settings = map[string]json.RawMessage{}
	}
	if a.names == nil {
		a.names = map[string]string{}
	}
	add := func(object map[string]json.RawMessage, path, name, option string, value any) {
		if _, has := object[name]; has {
			return
		}
		object[name], _ = json.Marshal(value) // of strings and booleans
		a.names[path+name] = launchOptionsHeader + "." + option
	}
	if args := slices.DeleteFunc(options.Args, launch.IsNeedlessArg); len(args) > 0 {
		add(settings, "browser.", "args", "args", args)
	}
	if options.Headless != nil {
		add(settings, "browser.", "headless", "headless", *options.Headless)
	}
	maps.DeleteFunc(options.Proxy, func(_ string, value *string) bool { return value == nil })
	if len(options.Proxy) > 0 {
		add(body, "", "proxyOverride", "proxy", options.Proxy)
		for name := range options.Proxy {
			a.names["proxyOverride."+name] = launchOptionsHeader + ".proxy." + name
		}
	}
	if len(settings) > 0 {
		body["browser"], _ = json.Marshal(settings) // of values that were decoded
	}
	if a.body, err = json.Marshal(body); err != nil {
		return fmt.Errorf("encode the launch: %w", err)
	}
	return nil
}
