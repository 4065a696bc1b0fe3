package access

import (
	"context"
	"net"
	"time"

	"github.com/browser-svc/svc/worker/internal/activity"
)

// Browser is one that runs, as its routes see it.
type Browser struct {
	LaunchID       string
	SessionID      string
	Name           string // for people, such as the profile's
	BrowserVersion int
	Headless       bool
	StartedAt      time.Time
	DebugPort      int                                     // of its DevTools server, on 127.0.0.1
	Dial           func(context.Context) (net.Conn, error) // connects to that server without a detour; nil: by its port
	DebugPath      string                                  // of the browser's own socket there: /devtools/browser/<guid>
	DevTools       bool                                    // whether that server brings the DevTools front end
	Display        *Display                                // nil when it runs without a window
	Activity       *activity.Meter                         // told of everything that clients do
	Done           <-chan struct{}                         // closed when the browser has ended
	OnLeaving      func()                                  // is told that it closed its own socket, and so may be ending; nil: nobody asks
}

// Display is where a headful browser's desktop is streamed from.
type Display struct {
	Socket       string // of its VNC server
	Password     string // that lets input through
	ViewPassword string // that only watches
}

// HasEnded reports whether the browser runs no more.
func (b Browser) HasEnded() bool {
	select {
	case <-b.Done:
		return true
	default:
		return false
	}
}

// Finder knows the browsers that run on this machine.
type Finder interface {
	Find(launchID string) (Browser, bool)
}
