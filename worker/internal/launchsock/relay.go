package launchsock

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/intercept"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/wsframe"
)

// answerTimeout is how long a browser may take to answer the client's close frame.
const answerTimeout = 3 * time.Second

// relay is the connection of a client to the browser that it has launched.
type relay struct {
	*Service
	launched  session.Session
	keepAlive bool // the browser outlives the client
	in        *intercept.ClientStream
	out       *intercept.BrowserStream
}

// relay forwards frames in both directions until the client, the browser or the
// worker ends, and then ends the rest. The client sees the end of the session when it is
// recorded.
func (s *Service) relay(client, up *ws.Raw, launched session.Session, keepAlive bool) {
	running, ok := s.Launches.Running(launched.LaunchID)
	var calls *intercept.Calls
	if ok {
		calls = running.Browser.Calls()
	}
	connection := calls.Connect()
	defer connection.Close()
	r := &relay{Service: s, launched: launched, keepAlive: keepAlive}
	r.in, r.out = connection.Streams(client, up)
	r.in.Answer = s.answerer(r.out, launched)
	r.in.OnClose = func() { _ = up.Conn.SetReadDeadline(time.Now().Add(answerTimeout)) }
	r.out.BeforeEnd = func(closeAccepted bool) { r.end(!closeAccepted && r.in.Closing()) }
	var copies sync.WaitGroup
	defer copies.Wait()
	defer func() { _ = up.Conn.Close() }()
	defer func() { _ = client.Conn.Close() }()
	if !ok { // the browser has ended
		r.sendEndReason(r.end(false))
		return
	}
	if !keepAlive {
		s.Launches.BindClient(launched.LaunchID, func() bool { return r.in.Closing() || intercept.IsClosed(client.Conn) })
	}
	defer running.Activity.Watch(client.Conn)()

	fromClient, fromBrowser := make(chan error, 1), make(chan struct{})
	copies.Go(func() { fromClient <- r.in.Run(client) })
	copies.Go(func() {
		defer close(fromBrowser)
		if err := r.out.Run(up); !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			s.Logger.Debug("launch socket failed", "launchId", launched.LaunchID, "error", err)
		}
	})
	var err error
	select {
	case err = <-fromClient:
	case <-fromBrowser:
	case <-running.Browser.Done():
	case <-s.ctx.Done():
	}
	ended, ok := r.end(r.in.Closing() || err != nil && !errors.Is(err, intercept.ErrBrowserClosed))
	if ok {
		r.out.Drain(fromBrowser)
	}
	r.out.SendErrorClose(err)
	r.sendEndReason(ended, ok)
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
func (r *relay) sendEndReason(ended session.Session, ok bool) {
	if !ok {
		return
	}
	status := uint16(wsframe.Normal)
	if ended.EndReason == session.Drain {
		status = wsframe.GoingAway
	}
	r.out.SendClose(status, string(ended.EndReason))
}
