package devtools

import (
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/lazy"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/cdp/resume"
)

const (
	resumeQuery = "resume" // number of the browser's messages that the client has received
	clientQuery = "client" // name of the client, if several connect to the same target

	maxCount = 1<<53 - 1 // exact in a double, the number type of JavaScript
)

var clientName = lazy.Regexp(`^[A-Za-z0-9_-]{1,64}$`)

// connectResumable opens or resumes a connection that outlives its sockets, and
// returns when this socket has ended. Not the socket, but its connection counts against
// the launch.
func (s *Service) connectResumable(c echo.Context, v access.AuthorizedRequest, kind, path string) error {
	if err := s.tasks.enter(); err != nil {
		return err
	}
	defer s.tasks.running.Done()
	received, name, err := s.resumeParams(c)
	if err != nil {
		return err
	}
	key := resume.Key{LaunchID: v.LaunchID, Path: path, Client: name}
	conn := s.resumable.Find(key, received)
	if conn == nil && received == 0 {
		if conn, err = s.openResumable(c, v, kind, key); err != nil {
			return err
		}
	}
	client, err := ws.TakeOver(c.Response(), c.Request())
	if err != nil {
		return err
	}
	if conn == nil {
		s.resumable.Refuse(client)
		return nil
	}
	s.sockets.Add(1)
	defer s.sockets.Add(-1)
	conn.Serve(client, received)
	return nil
}

// resumeParams reads the resume parameters of a request.
func (s *Service) resumeParams(c echo.Context) (received int64, name string, err error) {
	query := c.QueryParams()
	received, err = strconv.ParseInt(query.Get(resumeQuery), 10, 64)
	if err != nil || received < 0 || received > maxCount || len(query[resumeQuery]) > 1 {
		return 0, "", invalidParam(resumeQuery, fault.NotInteger, "must be one number, the number of received messages", query[resumeQuery])
	}
	if name = query.Get(clientQuery); query.Has(clientQuery) && (!clientName().MatchString(name) || len(query[clientQuery]) > 1) {
		return 0, "", invalidParam(clientQuery, fault.InvalidPattern, "must be one name of 1 to 64 letters, digits, dashes and underscores", query[clientQuery])
	}
	return received, name, nil
}

func invalidParam(field, code, message string, received []string) error {
	detail := fault.Detail{Field: field, Code: code, Message: message}
	if len(received) > 0 {
		detail.Received = received[0]
	}
	return fault.Invalid(detail)
}

// openResumable connects to the browser and keeps the connection until it ends.
func (s *Service) openResumable(c echo.Context, v access.AuthorizedRequest, kind string, key resume.Key) (*resume.Conn, error) {
	if err := s.tasks.begin(v.LaunchID); err != nil {
		return nil, err
	}
	up, err := s.dial(c.Request(), v, key.Path)
	if err != nil {
		s.tasks.end(v.LaunchID)
		return nil, err
	}
	conn, isNew, err := s.resumable.Open(key, resume.Browser{Socket: &up.Raw, Done: v.Done, BeforeEnd: beforeEnd(v, kind), Watch: v.Activity.Watch, Calls: v.Calls, Client: clientOf(c.Request(), kind, key.Path)})
	if !isNew {
		_ = up.Conn.Close()
		s.tasks.end(v.LaunchID)
		return conn, err
	}
	go func() {
		defer s.tasks.end(v.LaunchID)
		s.resumable.Run(s.tasks.ctx, key, conn)
	}()
	return conn, nil
}
