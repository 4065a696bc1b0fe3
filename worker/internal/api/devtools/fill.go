package devtools

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/data/secretfill"
)

const (
	fillTimeout    = 30 * time.Second
	maxFillMessage = 4 << 20 // bytes; the tree of frames with their URLs
)

// Secrets has the secrets of the organizations that sessions are charged to.
type Secrets interface {
	// Use returns a value for a document of an origin in a session.
	Use(ctx context.Context, launchID, secret, field, origin string) (secretID uuid.UUID, value string, err error)
}

// fill fills a field of a page with a secret.
func (s *Service) fill(c echo.Context, v access.AuthorizedRequest) error {
	var request workerapi.FillRequest
	if err := decode(c, &request); err != nil {
		return err
	}
	r := secretfill.Request{Secret: request.Secret, Field: string(request.Field)}
	if request.Selector != nil {
		r.Selector = *request.Selector
	}
	if request.BackendNodeId != nil {
		r.BackendNodeID = int(*request.BackendNodeId)
	}
	var target string
	if request.TargetId != nil { // also of a frame
		target = *request.TargetId
	} else {
		page, err := s.chromium.page(c.Request().Context(), v.Browser, "")
		if err != nil {
			return s.toFault(v, err)
		}
		target = page
	}
	filled, err := s.FillSecret(c.Request().Context(), v.Browser, target, r)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, workerapi.FillResponse{Success: true, Data: workerapi.Filled{
		TargetId: target, SecretId: filled.SecretID, Field: request.Field, Origin: filled.Origin,
	}})
}

// FillSecret fills a field of a target, a page or a frame of another site, with a secret of
// the organization that the session is charged to.
func (s *Service) FillSecret(ctx context.Context, browser access.Browser, targetID string, r secretfill.Request) (secretfill.Filled, error) {
	v := access.AuthorizedRequest{Browser: browser}
	ctx, done, err := s.beginTask(ctx, v, fillTimeout)
	if err != nil {
		return secretfill.Filled{}, err
	}
	defer done()
	conn, err := browser.ConnectCDP(ctx, maxFillMessage)
	if err != nil {
		return secretfill.Filled{}, s.toFault(v, err)
	}
	defer func() { _ = conn.Close() }()
	filled, err := secretfill.Fill(ctx, conn, targetID, r, browser.Filled, func(ctx context.Context, secret, field, origin string) (uuid.UUID, string, error) {
		return s.secrets.Use(ctx, browser.LaunchID, secret, field, origin)
	})
	return filled, s.toFault(v, err)
}
