package cloud

import (
	"context"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/launch"
	"github.com/browser-svc/svc/worker/internal/session"
)

// CountStale returns how many running sessions of the worker's organization
// belong to this machine and are stale (GET /v1/license/sessions). It
// implements report.StaleCloud, like Reclaim.
func (c *Client) CountStale(ctx context.Context) (int, error) {
	ctx, cancel := c.begin(ctx, "listLicenseSessions")
	defer cancel()
	if err := c.checkCompatible(ctx); err != nil {
		return 0, err
	}
	credential := c.credential(session.OrganizationKey{})
	answer, err := c.api.ListLicenseSessionsWithResponse(ctx, credential.sign)
	if err != nil {
		return 0, callFault(err)
	}
	if answer.JSON200 == nil {
		return 0, credential.answerFault(answer.HTTPResponse, answer.Body)
	}
	stale := 0
	for _, row := range answer.JSON200.Data.Sessions {
		if row.Stale && row.MachineId == c.machine.ID {
			stale++
		}
	}
	return stale, nil
}

// Reclaim ends the stale sessions of the worker's organization (POST
// /v1/license/sessions/reclaim).
func (c *Client) Reclaim(ctx context.Context) (released int, err error) {
	ctx, cancel := c.begin(ctx, "reclaimLicenseSessions")
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
	ctx, cancel := c.begin(ctx, "getProfileConfig")
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
	return toProfile(answer.JSON200.Data), nil
}
