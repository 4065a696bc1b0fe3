package devtools

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/lazy"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/access"
	"github.com/browser-svc/svc/worker/internal/intercept"
)

// drainTimeout is how long one side's data may take to reach the other after
// the connection or the browser has ended.
const drainTimeout = 3 * time.Second

var devtoolsID = lazy.Regexp(`^[A-Za-z0-9-]{1,64}$`)

// connectBrowser relays a WebSocket to that of the browser.
func (s *Service) connectBrowser(c echo.Context, v access.AuthorizedRequest) error {
	return s.connect("browser", func(echo.Context) string { return path.Base(v.DebugPath) })(c, v)
}

// targetOf returns the id in the path, for connect. Some clients append a slash.
func targetOf(param string) func(c echo.Context) string {
	return func(c echo.Context) string { return strings.TrimSuffix(c.Param(param), "/") }
}

// connect relays a WebSocket to one of Chromium's own, /devtools/<kind>/<id>,
// and returns when it has ended.
func (s *Service) connect(kind string, idOf func(echo.Context) string) access.Handler {
	return func(c echo.Context, v access.AuthorizedRequest) error {
		id := idOf(c)
		if err := ws.CheckHandshake(c.Request()); err != nil {
			return err
		}
		if !devtoolsID().MatchString(id) {
			return errNoTarget
		}
		path := "/devtools/" + kind + "/" + id
		if c.QueryParams().Has(resumeQuery) {
			return s.connectResumable(c, v, kind, path)
		}
		if err := s.tasks.begin(v.LaunchID); err != nil {
			return err
		}
		defer s.tasks.end(v.LaunchID)
		up, err := s.dial(c.Request(), v, path)
		if err != nil {
			return err
		}
		defer func() { _ = up.Conn.Close() }()
		client, err := up.TakeOver(c.Response(), nil)
		if err != nil {
			return err
		}
		defer func() { _ = client.Conn.Close() }()
		defer v.Activity.Watch(client.Conn)()
		s.sockets.Add(1)
		defer s.sockets.Add(-1)
		connection := v.Calls.Connect()
		defer connection.Close() // relay has closed the client's socket
		s.relay(connection, client, &up.Raw, v.Done, beforeEnd(v, kind))
		return nil
	}
}

func (s *Service) dial(r *http.Request, v access.AuthorizedRequest, path string) (*ws.Upstream, error) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.tasks.ctx, cancel)()
	up, err := ws.DialUpstream(ctx, v.Dial, loopback(v.DebugPort), path, r.Header)
	if refused, ok := errors.AsType[*ws.RefusedError](err); ok &&
		(refused.Status == http.StatusNotFound || refused.Status == http.StatusInternalServerError) {
		return nil, errNoTarget // Chromium answers 500 for an unknown page
	}
	return up, s.toFault(v, err)
}

// beforeEnd returns a function that is called before a client sees that the browser has
// accepted Browser.close, or has closed its side of a connection. It waits until the end of
// the browser is recorded. A page closes its side also when only the page ends.
func beforeEnd(v access.AuthorizedRequest, kind string) func(ctx context.Context, closeAccepted bool) {
	return func(ctx context.Context, closeAccepted bool) {
		if v.AwaitEnd != nil && (closeAccepted || kind == "browser" || v.HasEnded()) {
			v.AwaitEnd(ctx)
		}
	}
}

// relay forwards frames in both directions until one side, the browser or the
// worker ends. beforeEnd is called before the client sees the end of the browser's side,
// unless the client itself has sent a close frame.
func (s *Service) relay(
	connection *intercept.Connection, client, up *ws.Raw, browserDone <-chan struct{}, beforeEnd func(ctx context.Context, closeAccepted bool),
) {
	in, out := connection.Streams(client, up)
	ctx, cancel := context.WithCancel(s.tasks.ctx) // ends when the client has left
	defer cancel()
	awaitEnd := func(closeAccepted bool) {
		if closeAccepted || !in.Closing() {
			beforeEnd(ctx, closeAccepted)
		}
	}
	out.BeforeEnd = awaitEnd
	ended := make(chan struct{}, 2)
	go func() {
		err := in.Run(client)
		if errors.Is(err, intercept.ErrBrowserClosed) {
			awaitEnd(false)
		}
		cancel()
		out.SendErrorClose(err)
		up.CloseWrite()
		ended <- struct{}{}
	}()
	go func() {
		_ = out.Run(up) // either side may disconnect at any time
		awaitEnd(false)
		client.CloseWrite()
		ended <- struct{}{}
	}()

	left := 2
	select {
	case <-ended:
		left--
	case <-browserDone:
		awaitEnd(false)
	case <-s.tasks.ctx.Done():
	}
	left -= s.drain(ended, left)
	_ = client.Conn.Close()
	_ = up.Conn.Close()
	for range left {
		<-ended
	}
}

// drain waits until this many directions of a relay have ended, for at most drainTimeout.
// It returns how many have.
func (s *Service) drain(ended <-chan struct{}, most int) (count int) {
	patience := time.NewTimer(drainTimeout)
	defer patience.Stop()
	for count < most {
		select {
		case <-ended:
			count++
		case <-patience.C:
			return count
		case <-s.tasks.ctx.Done():
			return count
		}
	}
	return count
}
