// Package trace records what clients do with a browser in the trace format of Playwright, version 8, which its trace viewer
// opens: an action for each command that a person would recognize, with the DOM and a picture after it, and the messages of
// pages.
//
// The viewer of Playwright 1.57 and later reads this version; it also reads all earlier ones, but refuses later ones. A trace is
// an archive: trace.trace has a JSON object per line, trace.network one per request, and resources/ what both refer to by
// name. The lines of trace.trace are:
//
//   - context-options: first, with the version, and the time that all others count from;
//   - before, log and after: the parts of an action, with the names of its snapshots;
//   - frame-snapshot: the DOM of a frame, after the parts of its action, as ["NAME", {attributes}, ...children];
//   - screencast-frame: a picture of a page, a JPEG among the resources;
//   - console and event: messages of pages; pages that open and close.
//
// A file beside the archive has the steps of clients and persons for package script.
//
// Commands come from package tap. All else comes over a connection of the worker, in worlds that the scripts of pages do not
// see. Nothing waits for the trace: commands that come too fast are lost, and snapshots that come too late are dropped. The
// log of an action, or an action of its own, says so.
//
// A trace has no text that was typed into a password field, or into a field that is not known to be another one, and no value
// of a password field or of a field that was filled with a secret.
package trace

import (
	"context"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/cdp/tap"
)

// version is the version of the format.
const version = 8

// Source is a running browser.
type Source struct {
	Title   string // of the trace
	Browser string // the version
	Began   time.Time

	Connect   func(ctx context.Context) (*cdp.Conn, error)       // a connection of the worker that does not keep the browser awake
	KeepAwake func() (release func())                            // keeps the browser from being frozen
	Tap       *tap.Tap                                           // of the commands of clients
	Messages  func(ctx context.Context, add func(Message)) error // follows the messages of pages until ctx ends
	Filled    interface {
		Nodes(loader string) (backendNodeIDs []int)
		Values() []string
	} // fields of documents with secrets, and these
}

// Message is a message of a page.
type Message struct {
	At           time.Time
	TargetID     string
	Exception    bool
	Level        string // debug, info, warning or error
	Text         string
	URL          string
	Line, Column int // from 1; 0: unknown
}
