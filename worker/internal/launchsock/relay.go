package launchsock

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/wsframe"
)

const (
	closeTimeout = 3 * time.Second // for a close frame and the data before it
	endTimeout   = 5 * time.Second // between the end of a browser's socket and the end of the browser
)

// errBrowserClosed means that the browser accepts no more data.
var errBrowserClosed = errors.New("the browser's socket is closed")

// relay forwards frames in both directions until the client, the browser or the
// worker ends, and then ends the rest.
func (s *Service) relay(client, up *ws.Raw, launched session.Session, keepAlive bool) {
	out := &browserStream{conn: client.Conn}
	in := &clientStream{browser: up.Conn, answer: s.answerer(out, launched), onClose: func() {}}
	if !keepAlive {
		in.onClose = func() { s.Launches.MarkLeaving(launched.LaunchID) }
	}
	var copies sync.WaitGroup
	defer copies.Wait()
	defer func() { _ = up.Conn.Close() }()
	defer func() { _ = client.Conn.Close() }()
	running, ok := s.Launches.Running(launched.LaunchID)
	if !ok { // the browser has ended
		s.sendEndReason(out, launched)
		return
	}
	defer running.Activity.Watch(client.Conn)()

	fromClient, fromBrowser := make(chan error, 1), make(chan struct{})
	copies.Go(func() { fromClient <- in.run(client) })
	copies.Go(func() {
		defer close(fromBrowser)
		if err := out.run(up); !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			s.Logger.Debug("launch socket failed", "launchId", launched.LaunchID, "error", err)
		}
	})

	reason := session.ClientClose
	select {
	case err := <-fromClient:
		out.sendErrorClose(err)
		if errors.Is(err, errBrowserClosed) {
			reason = s.browserClosed(out, running.Browser.Done(), launched)
		}
	case <-fromBrowser:
		if !in.closing.Load() { // otherwise this is the answer to the client's close frame
			reason = s.browserClosed(out, running.Browser.Done(), launched)
		}
	case <-running.Browser.Done():
		out.drain(fromBrowser)
		s.sendEndReason(out, launched)
		reason = ""
	case <-s.ctx.Done():
		out.sendClose(wsframe.GoingAway, "the worker is shutting down")
		reason = session.Drain
	}
	_ = client.Conn.Close()
	if reason == session.Drain || reason != "" && !keepAlive {
		s.endBrowser(launched, reason)
	}
}

// drain waits, for a bounded time, until the browser's last bytes are sent to the
// client.
func (o *browserStream) drain(fromBrowser <-chan struct{}) {
	_ = o.conn.SetWriteDeadline(time.Now().Add(closeTimeout))
	select {
	case <-fromBrowser:
	case <-time.After(closeTimeout):
	}
}

// browserClosed tells the client why the browser's socket ended. If the browser
// continues to run, only the connection has ended.
func (s *Service) browserClosed(out *browserStream, done <-chan struct{}, launched session.Session) session.EndReason {
	select {
	case <-done:
		s.sendEndReason(out, launched)
		return ""
	case <-s.ctx.Done():
		out.sendClose(wsframe.GoingAway, "the worker is shutting down")
		return session.Drain
	case <-time.After(endTimeout):
		return session.ClientClose
	}
}

// sendEndReason sends a close frame with the end reason of the session. Killing an
// ended session waits until the reason is recorded.
func (s *Service) sendEndReason(out *browserStream, launched session.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	ended, err := s.Launches.KillLaunch(ctx, launched.LaunchID, session.ClientClose)
	if err != nil {
		s.Logger.Warn("failed to get end reason", "launchId", launched.LaunchID, "error", err)
	}
	status := uint16(wsframe.Normal)
	if ended.EndReason == session.Drain {
		status = wsframe.GoingAway
	}
	out.sendClose(status, string(ended.EndReason))
}

// sendErrorClose sends a close frame for an error in the client's frames.
func (o *browserStream) sendErrorClose(err error) {
	switch {
	case errors.Is(err, wsframe.ErrProtocol):
		o.sendClose(wsframe.ProtocolError, "")
	case errors.Is(err, errTooManyAnswers):
		o.sendClose(wsframe.Policy, "")
	}
}

// run forwards what the browser sends until it disconnects.
func (o *browserStream) run(up *ws.Raw) error {
	if err := o.forward(up.Early); err != nil {
		return err
	}
	buffer := make([]byte, bufferSize)
	for {
		if n := o.remaining(); n >= passthroughThreshold {
			if err := o.forwardPayload(up.Conn, n); err != nil {
				return err
			}
		}
		n, err := up.Conn.Read(buffer)
		if n > 0 {
			if failed := o.forward(buffer[:n]); failed != nil {
				return failed
			}
		}
		if err != nil {
			return err
		}
	}
}
