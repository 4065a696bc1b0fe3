package access

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/cdp/intercept"
	"github.com/browser-svc/svc/worker/internal/data/files"
	"github.com/browser-svc/svc/worker/internal/data/secretfill"
	"github.com/browser-svc/svc/worker/internal/session/activity"
)

// Browser is a running browser, for its routes.
type Browser struct {
	LaunchID       string
	SessionID      string
	Name           string // display name, such as that of the profile
	BrowserVersion int
	Headless       bool
	StartedAt      time.Time
	DebugPort      int                                     // of its DevTools server, on 127.0.0.1
	Dial           func(context.Context) (net.Conn, error) // connects to the DevTools server directly; nil: by its port
	DialPassive    func(context.Context) (net.Conn, error) // like Dial, but the browser may be frozen meanwhile; nil: Dial
	Hold           func() (release func())                 // keeps the browser from being frozen; nil: it never is
	DebugPath      string                                  // of the browser's WebSocket: /devtools/browser/<guid>
	DevTools       bool                                    // the build includes the DevTools front end
	Display        *Display                                // nil for a headless browser
	Activity       *activity.Meter                         // records client activity
	Calls          *intercept.Calls                        // handles some calls of CDP connections; nil: none
	Files          *files.Launch                           // its downloads and uploads
	Filled         *secretfill.Fields                      // its fields that were filled with secrets
	Expiry         func() Expiry                           // when the worker ends it; nil: never
	Origins        func() []string                         // of the pages that tabs have shown; nil: unknown
	Done           <-chan struct{}                         // closed when the browser has ended
	// AwaitEnd waits until the end of a browser that has closed a socket, or has accepted
	// Browser.close, is recorded. It returns early if the browser continues to run or ctx ends.
	AwaitEnd func(ctx context.Context)
}

// Expiry is the time at which the worker ends a browser that is neither used nor extended.
type Expiry struct {
	Time   time.Time // zero: never
	Reason string    // as the endReason of the API
	Limit  time.Duration
}

// Display is the desktop of a headful browser.
type Display struct {
	Socket       string // of its VNC server
	Password     string // allows input
	ViewPassword string // view only
}

// HasEnded reports whether the browser has ended.
func (b Browser) HasEnded() bool {
	select {
	case <-b.Done:
		return true
	default:
		return false
	}
}

// KeepAwake continues a frozen browser and keeps it from being frozen until release is
// called. Connections of Dial do so by themselves.
func (b Browser) KeepAwake() (release func()) {
	if b.Hold == nil {
		return func() {}
	}
	return b.Hold()
}

// ObserveCDP is ConnectCDP for a connection on which the worker only listens.
func (b Browser) ObserveCDP(ctx context.Context, maxMessage int64) (*cdp.Conn, error) {
	if b.DialPassive != nil {
		b.Dial = b.DialPassive
	}
	return b.ConnectCDP(ctx, maxMessage)
}

// ConnectCDP opens a connection of the worker to the browser, whose messages have at most
// maxMessage bytes. Unlike sessions on the control pipe, its sessions do not get the
// launch's emulation settings.
func (b Browser) ConnectCDP(ctx context.Context, maxMessage int64) (*cdp.Conn, error) {
	address := fmt.Sprintf("ws://127.0.0.1:%d%s", b.DebugPort, b.DebugPath)
	socket, err := ws.Dial(ctx, address, nil, ws.Options{ReadLimit: maxMessage, DialContext: b.Dial})
	if err != nil {
		return nil, fmt.Errorf("connect to the browser: %w", err)
	}
	return cdp.OverWebSocket(socket), nil
}

// Finder finds running browsers.
type Finder interface {
	Find(launchID string) (Browser, bool)
}
