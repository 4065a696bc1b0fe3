package cloud

import (
	"context"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/cloud/report"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// ProfileData is the access to a profile's data.
type ProfileData struct {
	Current *uuid.UUID // nil if there is no version
	Key     []byte     // of the organization
}

// OpenProfileData gets access to a profile's data (POST /v1/profiles/{id}/data/lease).
// Errors: Conflict if another session has the lease, with its holder in the details.
func (c *Client) OpenProfileData(ctx context.Context, use launch.DataUse) (ProfileData, error) {
	ctx, cancel := c.callContext(ctx, "openProfileData", 0)
	defer cancel()
	credential := c.credential(use.OrganizationKey)
	if credential.key.IsZero() {
		return ProfileData{}, errNoKey()
	}
	answer, err := c.api.OpenProfileDataWithResponse(ctx, use.ProfileID, cloudapi.OpenProfileDataRequest{
		SessionId: use.SessionID, MachineId: c.machine.ID, ReadOnly: &use.ReadOnly,
	}, credential.sign)
	if err != nil {
		return ProfileData{}, callFault(err)
	}
	if answer.JSON200 == nil || !bool(answer.JSON200.Success) {
		refused := credential.answerFault(answer.HTTPResponse, answer.Body)
		if answer.JSON409 != nil && fault.Is(refused, fault.Conflict) {
			refused.Details = details(answer.JSON409.Error)
		}
		return ProfileData{}, refused
	}
	return ProfileData{Current: answer.JSON200.Data.VersionId, Key: answer.JSON200.Data.Key}, nil
}

// ReportCommit makes a saved version of a profile's data the current one (POST
// /v1/profiles/{id}/data/versions). The cloud ignores a repeated version. It implements
// report.Cloud.
func (c *Client) ReportCommit(ctx context.Context, saved report.Commit) error {
	ctx, cancel := c.callContext(ctx, "addProfileDataVersion", 0)
	defer cancel()
	credential := c.credential(saved.OrganizationKey)
	answer, err := c.api.AddProfileDataVersionWithResponse(ctx, saved.ProfileID, cloudapi.AddProfileDataVersionRequest{
		Id: saved.ID, SessionId: saved.SessionID, MachineId: c.machine.ID, PreviousVersionId: saved.Previous,
		SizeBytes: saved.Content, SentBytes: saved.Sent, KeepVersions: int32(saved.Keep),
	}, credential.sign)
	if err != nil {
		return callFault(err)
	}
	if answer.JSON200 == nil || !bool(answer.JSON200.Success) {
		return credential.answerFault(answer.HTTPResponse, answer.Body)
	}
	return nil
}

// ProfileDataVersions returns the versions of a profile's data, newest first (GET
// /v1/profiles/{id}/data/versions). Errors: NotFound.
func (c *Client) ProfileDataVersions(ctx context.Context, profileID uuid.UUID) ([]cloudapi.ProfileDataVersion, error) {
	ctx, cancel := c.callContext(ctx, "listProfileDataVersions", 0)
	defer cancel()
	credential := c.credential(session.OrganizationKey{})
	answer, err := c.api.ListProfileDataVersionsWithResponse(ctx, profileID, credential.sign)
	if err != nil {
		return nil, callFault(err)
	}
	if answer.JSON200 == nil || !bool(answer.JSON200.Success) {
		return nil, credential.answerFault(answer.HTTPResponse, answer.Body)
	}
	return answer.JSON200.Data.Items, nil
}

// ProfileDataDeleted reports whether the cloud calls a directory of OBJECT_STORE_URL that
// of a deleted organization (GET /v1/profile-data/{directory}/deleted). It needs no key.
func (c *Client) ProfileDataDeleted(ctx context.Context, directory string) (bool, error) {
	ctx, cancel := c.callContext(ctx, "checkDeletedProfileData", 0)
	defer cancel()
	answer, err := c.api.CheckDeletedProfileDataWithResponse(ctx, directory)
	if err != nil {
		return false, callFault(err)
	}
	if answer.JSON200 == nil || !bool(answer.JSON200.Success) {
		return false, c.credential(session.OrganizationKey{}).answerFault(answer.HTTPResponse, answer.Body)
	}
	return answer.JSON200.Data.Deleted, nil
}
