package devtools

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/worker/internal/auth/access"
)

const (
	closeTimeout = 10 * time.Second // of a tab
	endTimeout   = 30 * time.Second // of a browser
)

// close closes the named tab or, without a name, ends the browser.
func (s *Service) close(c echo.Context, v access.AuthorizedRequest) error {
	var request workerapi.CloseRequest
	if err := decode(c, &request); err != nil {
		return err
	}
	launchID, err := uuid.Parse(v.LaunchID)
	if err != nil {
		return fmt.Errorf("launch id: %w", err)
	}
	timeout, act := endTimeout, func(ctx context.Context) error { return s.endLaunch(ctx, v.LaunchID) }
	if request.TargetId != nil {
		timeout, act = closeTimeout, func(ctx context.Context) error { return s.chromium.closePage(ctx, v.Browser, *request.TargetId) }
	}
	ctx, done, err := s.beginTask(c.Request().Context(), v, timeout)
	if err != nil {
		return err
	}
	defer done()
	if err := act(ctx); err != nil {
		return s.toFault(v, err)
	}
	return c.JSON(http.StatusOK, workerapi.CloseResponse{Success: true, Data: workerapi.Closed{LaunchId: launchID, TargetId: request.TargetId}})
}

// closePage closes a tab and waits until it is closed.
func (c chromium) closePage(ctx context.Context, b access.Browser, id string) error {
	if _, err := c.page(ctx, b, id); err != nil {
		return err
	}
	if _, _, err := c.get(ctx, b, "/json/close/"+id); err != nil {
		return noTarget(err)
	}
	for {
		ids, err := c.pages(ctx, b)
		if err != nil || !slices.Contains(ids, id) {
			return err
		}
		if err := waitPollInterval(ctx); err != nil {
			return err
		}
	}
}
