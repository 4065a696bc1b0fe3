package devtools

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/data/storagestate"
)

const (
	stateTimeout    = 30 * time.Second
	maxStateMessage = 64 << 20 // bytes; the state of one origin, with escapes
)

// storageState answers with the cookies and the storage of a browser.
func (s *Service) storageState(c echo.Context, v access.AuthorizedRequest) error {
	q := queryOf(c)
	databases := q.flag("indexedDB", true)
	if err := q.err(); err != nil {
		return err
	}
	state, err := s.State(c.Request().Context(), v.Browser, databases)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, struct {
		Success bool               `json:"success"`
		Data    storagestate.State `json:"data"`
	}{true, state})
}

// State returns the cookies and the storage of a browser, with the databases of its pages on request.
func (s *Service) State(ctx context.Context, browser access.Browser, databases bool) (storagestate.State, error) {
	v := access.AuthorizedRequest{Browser: browser}
	ctx, done, err := s.beginTask(ctx, v, stateTimeout)
	if err != nil {
		return storagestate.State{}, err
	}
	defer done()
	state, err := readState(ctx, browser, databases)
	if err != nil {
		return state, s.toFault(v, err)
	}
	return state, nil
}

func readState(ctx context.Context, browser access.Browser, databases bool) (storagestate.State, error) {
	conn, err := browser.ConnectCDP(ctx, maxStateMessage)
	if err != nil {
		return storagestate.State{}, err
	}
	defer func() { _ = conn.Close() }()
	var origins []string
	if browser.Origins != nil {
		origins = browser.Origins()
	}
	state, err := storagestate.Read(ctx, conn, origins, databases)
	if errors.Is(err, storagestate.ErrTooLarge) {
		return state, fault.Wrap(err, fault.Conflict, "The storage of the browser is larger than 16 MB. Request the state with indexedDB=false.")
	}
	return state, err
}
