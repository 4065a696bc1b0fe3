package cloud

import (
	"context"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// VerifyKey has the cloud verify a caller's key. It implements launch.License.
func (c *Client) VerifyKey(ctx context.Context, key session.OrganizationKey) error {
	_, err := c.listSessions(ctx, c.credential(key))
	return err
}

// CountStale returns how many running sessions of the worker's organization
// belong to this machine and are stale (GET /v1/license/sessions). It
// implements report.StaleCloud, like Reclaim.
func (c *Client) CountStale(ctx context.Context) (int, error) {
	sessions, err := c.listSessions(ctx, c.credential(session.OrganizationKey{}))
	if err != nil {
		return 0, err
	}
	stale := 0
	for _, row := range sessions {
		if row.Stale && row.MachineId == c.machine.ID {
			stale++
		}
	}
	return stale, nil
}

func (c *Client) listSessions(ctx context.Context, credential credential) ([]cloudapi.LicenseSession, error) {
	ctx, cancel := c.callContext(ctx, "listLicenseSessions", 0)
	defer cancel()
	if err := c.checkCompatible(ctx); err != nil {
		return nil, err
	}
	answer, err := c.api.ListLicenseSessionsWithResponse(ctx, credential.sign)
	if err != nil {
		return nil, callFault(err)
	}
	if answer.JSON200 == nil {
		return nil, credential.answerFault(answer.HTTPResponse, answer.Body)
	}
	return answer.JSON200.Data.Sessions, nil
}

// Reclaim ends the stale sessions of the worker's organization (POST
// /v1/license/sessions/reclaim).
func (c *Client) Reclaim(ctx context.Context) (released int, err error) {
	ctx, cancel := c.callContext(ctx, "reclaimLicenseSessions", 0)
	defer cancel()
	if err := c.checkCompatible(ctx); err != nil {
		return 0, err
	}
	credential := c.credential(session.OrganizationKey{})
	answer, err := c.api.ReclaimLicenseSessionsWithResponse(ctx, credential.sign)
	if err != nil {
		return 0, callFault(err)
	}
	if answer.JSON200 == nil {
		return 0, credential.answerFault(answer.HTTPResponse, answer.Body)
	}
	return int(answer.JSON200.Data.Released), nil
}

// Profile returns the launch configuration of a profile (GET
// /v1/profiles/{id}/config). It implements launch.License.
func (c *Client) Profile(ctx context.Context, key session.OrganizationKey, id uuid.UUID) (launch.Profile, error) {
	ctx, cancel := c.callContext(ctx, "getProfileConfig", 0)
	defer cancel()
	if err := c.checkCompatible(ctx); err != nil {
		return launch.Profile{}, err
	}
	credential := c.credential(key)
	answer, err := c.api.GetProfileConfigWithResponse(ctx, id, credential.sign)
	if err != nil {
		return launch.Profile{}, callFault(err)
	}
	if answer.JSON200 == nil || !bool(answer.JSON200.Success) {
		return launch.Profile{}, credential.answerFault(answer.HTTPResponse, answer.Body)
	}
	if err := checkConfig(answer.JSON200.Data, &id); err != nil {
		return launch.Profile{}, err
	}
	return toProfile(answer.JSON200.Data)
}
