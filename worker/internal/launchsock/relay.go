package launchsock

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/intercept"
	"github.com/browser-svc/svc/worker/internal/launch"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/wsframe"
)

// answerTimeout is how long a browser may take to answer the client's close frame.
const answerTimeout = 3 * time.Second

// relay is the connection of a client to the browser that it has launched.
type relay struct {
	*Service
	launched   session.Session
	running    launch.Running
	keepAlive  bool // the browser outlives the client
	client, up *ws.Raw
	connection *intercept.Connection
	in         *intercept.ClientStream
	out        *intercept.BrowserStream
}

// prepare connects both sides, before the client knows that its browser runs.
func (r *relay) prepare(client *ws.Raw) {
	r.client = client
	r.connection = r.running.Browser.Calls().Connect()
	r.in, r.out = r.connection.Streams(client, r.up)
	r.in.Answer = r.answerer(r.out, r.launched)
	r.in.OnClose = func() { _ = r.up.Conn.SetReadDeadline(time.Now().Add(answerTimeout)) }
	r.out.BeforeEnd = func(closeAccepted bool) { r.end(!closeAccepted && r.in.Closing()) }
	if !r.keepAlive {
		r.Launches.BindClient(r.launched.LaunchID, func() bool { return r.in.Closing() || intercept.IsClosed(client.Conn) })
	}
}

// run forwards frames in both directions until the client, the browser or the worker
// ends, and then ends the rest. The client sees the end of the session when it is recorded.
func (r *relay) run() {
	defer r.connection.Close()
	var copies sync.WaitGroup
	defer copies.Wait()
	defer func() { _ = r.up.Conn.Close() }()
	defer func() { _ = r.client.Conn.Close() }()
	defer r.running.Activity.Watch(r.client.Conn)()

	fromClient, fromBrowser := make(chan error, 1), make(chan struct{})
	copies.Go(func() { fromClient <- r.in.Run(r.client) })
	copies.Go(func() {
		defer close(fromBrowser)
		if err := r.out.Run(r.up); !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			r.Logger.Debug("launch socket failed", "launchId", r.launched.LaunchID, "error", err)
		}
	})
	var err error
	select {
	case err = <-fromClient:
	case <-fromBrowser:
	case <-r.running.Browser.Done():
	case <-r.ctx.Done():
	}
	ended, ok := r.end(r.in.Closing() || err != nil && !errors.Is(err, intercept.ErrBrowserClosed))
	if ok {
		r.out.Drain(fromBrowser)
	}
	r.out.SendErrorClose(err)
	if ok {
		r.sendEndReason(ended)
	}
}

// end waits until the end of the session is recorded, if the browser ends by itself.
// Otherwise it ends the session, unless that outlives the client. It returns false if the
// session continues.
func (r *relay) end(clientLeft bool) (ended session.Session, ok bool) {
	if !clientLeft {
		if ended, ok := r.Launches.AwaitEnd(r.ctx, r.launched.LaunchID); ok {
			return ended, true
		}
	}
	switch {
	case r.ctx.Err() != nil:
		return r.endBrowser(r.launched, session.Drain)
	case r.keepAlive:
		return session.Session{}, false
	}
	return r.endBrowser(r.launched, session.ClientClose)
}

// sendEndReason sends a close frame with the end reason of an ended session.
func (r *relay) sendEndReason(ended session.Session) {
	status := uint16(wsframe.Normal)
	if ended.EndReason == session.Drain {
		status = wsframe.GoingAway
	}
	r.out.SendClose(status, string(ended.EndReason))
}
