package launchsock

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp/intercept"
	"github.com/browser-svc/svc/worker/internal/cdp/tap"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// upstream is what a client is connected with.
type upstream struct {
	*ws.Upstream
	relay     intercept.RelayOptions
	release   func()            // called after the relay
	endReason session.EndReason // if this ends, but not the browser
}

// connectBrowser connects with the debugging server of a browser.
func (s *Service) connectBrowser(ctx context.Context, running launch.Running, header http.Header) (*upstream, error) {
	launched := running.Session
	up, err := ws.DialUpstream(ctx, running.Browser.Dial, fmt.Sprintf("127.0.0.1:%d", launched.DebugPort), launched.DebugPath, header)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "The browser did not start.")
	}
	return &upstream{Upstream: up, release: func() {}, endReason: session.ClientClose, relay: intercept.RelayOptions{
		Calls: running.Browser.Calls(), Done: running.Browser.Done(), Watch: running.Activity.Watch,
		Client: &tap.Client{Name: cmp.Or(header.Get("User-Agent"), "CDP")},
		Answer: func(message []byte) intercept.Answer { return s.reply(message, launched) },
	}}, nil
}

// upgrade connects to the browser and takes over the client's connection.
func (s *Service) upgrade(
	ctx context.Context, c echo.Context, launched session.Session, keepAlive bool, way route,
) (relay *intercept.Relay, release func(), err error) {
	running, ok := s.Launches.Running(launched.LaunchID)
	if !ok {
		return nil, nil, fault.New(fault.Internal, "The browser did not start.")
	}
	up, err := way.connect(ctx, running, c.Request().Header)
	if err != nil {
		if ended, ok := s.Launches.AwaitEnd(ctx, launched.LaunchID); ok {
			err = fault.Wrap(err, fault.Conflict, "The session ended before the client was connected: "+string(ended.EndReason)+". Launch another one.")
		}
		return nil, nil, err
	}
	up.relay.End = func(ctx context.Context, e intercept.Ending) (status uint16, reason string) {
		return s.end(ctx, e, launched, keepAlive, up.endReason)
	}
	prepare := func(client *ws.Raw) {
		relay = intercept.NewRelay(client, &up.Raw, up.relay)
		if !keepAlive {
			s.Launches.BindClient(launched.LaunchID, relay.HasClientLeft)
		}
	}
	if _, err := up.TakeOver(c.Response(), prepare); err != nil {
		_ = up.Conn.Close()
		up.release()
		return nil, nil, err
	}
	return relay, up.release, nil
}

// end waits until the end of the session is recorded, if the browser ends by itself.
// Otherwise it ends the session, unless that outlives the client. It returns the close frame
// with the reason; none if the session continues. request is the reason if neither the
// client nor the browser has ended.
func (s *Service) end(
	ctx context.Context, e intercept.Ending, launched session.Session, keepAlive bool, request session.EndReason,
) (status uint16, reason string) {
	if e != intercept.ClientLeft {
		if ended, ok := s.Launches.AwaitEnd(ctx, launched.LaunchID); ok {
			return closeFrame(ended)
		}
	}
	if e == intercept.ClientLeft {
		request = session.ClientClose
	}
	switch {
	case s.ctx.Err() != nil:
		request = session.Drain
	case keepAlive:
		return 0, ""
	}
	if ended, ok := s.endSession(launched, request); ok {
		return closeFrame(ended)
	}
	return 0, ""
}

// endSession ends a session and waits until that is recorded.
func (s *Service) endSession(launched session.Session, reason session.EndReason) (ended session.Session, ok bool) {
	s.Launches.RequestEnd(launched.LaunchID, reason)
	ended, ok = s.Launches.AwaitEnd(context.Background(), launched.LaunchID)
	if !ok {
		s.Logger.Error("the end of a session was not recorded in time", "launchId", launched.LaunchID)
	}
	return ended, ok
}

// closeFrame returns the content of the close frame for an ended session.
func closeFrame(ended session.Session) (status uint16, reason string) {
	if ended.EndReason == session.Drain {
		return wsframe.GoingAway, string(ended.EndReason)
	}
	return wsframe.Normal, string(ended.EndReason)
}
