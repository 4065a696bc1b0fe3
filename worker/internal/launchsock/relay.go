package launchsock

import (
	"context"
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

// endTimeout is the time between the end of a browser's socket and the end of the
// browser.
const endTimeout = 5 * time.Second

// relay forwards frames in both directions until the client, the browser or the
// worker ends, and then ends the rest.
func (s *Service) relay(client, up *ws.Raw, launched session.Session, keepAlive bool) {
	running, ok := s.Launches.Running(launched.LaunchID)
	var calls *intercept.Calls
	if ok {
		calls = running.Browser.Calls()
	}
	connection := calls.Connect()
	defer connection.Close()
	in, out := connection.Streams(client, up)
	in.Answer = s.answerer(out, launched)
	if !keepAlive {
		in.OnClose = func() { s.Launches.MarkLeaving(launched.LaunchID) }
	}
	var copies sync.WaitGroup
	defer copies.Wait()
	defer func() { _ = up.Conn.Close() }()
	defer func() { _ = client.Conn.Close() }()
	if !ok { // the browser has ended
		s.sendEndReason(out, launched)
		return
	}
	defer running.Activity.Watch(client.Conn)()

	fromClient, fromBrowser := make(chan error, 1), make(chan struct{})
	copies.Go(func() { fromClient <- in.Run(client) })
	copies.Go(func() {
		defer close(fromBrowser)
		if err := out.Run(up); !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			s.Logger.Debug("launch socket failed", "launchId", launched.LaunchID, "error", err)
		}
	})

	reason := session.ClientClose
	select {
	case err := <-fromClient:
		out.SendErrorClose(err)
		if errors.Is(err, intercept.ErrBrowserClosed) {
			reason = s.browserClosed(out, running.Browser.Done(), launched)
		}
	case <-fromBrowser:
		if !in.Closing() { // otherwise this is the answer to the client's close frame
			reason = s.browserClosed(out, running.Browser.Done(), launched)
		}
	case <-running.Browser.Done():
		out.Drain(fromBrowser)
		s.sendEndReason(out, launched)
		reason = ""
	case <-s.ctx.Done():
		out.SendClose(wsframe.GoingAway, "the worker is shutting down")
		reason = session.Drain
	}
	_ = client.Conn.Close()
	if reason == session.Drain || reason != "" && !keepAlive {
		s.endBrowser(launched, reason)
	}
}

// browserClosed tells the client why the browser's socket ended. If the browser
// continues to run, only the connection has ended.
func (s *Service) browserClosed(out *intercept.BrowserStream, done <-chan struct{}, launched session.Session) session.EndReason {
	select {
	case <-done:
		s.sendEndReason(out, launched)
		return ""
	case <-s.ctx.Done():
		out.SendClose(wsframe.GoingAway, "the worker is shutting down")
		return session.Drain
	case <-time.After(endTimeout):
		return session.ClientClose
	}
}

// sendEndReason sends a close frame with the end reason of the session. Killing an
// ended session waits until the reason is recorded.
func (s *Service) sendEndReason(out *intercept.BrowserStream, launched session.Session) {
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
	out.SendClose(status, string(ended.EndReason))
}
