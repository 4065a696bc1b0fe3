package rest

import (
	"context"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/browsers/profiledata"
	"github.com/browser-svc/svc/gen/cloudapi"
)

// ProfileData serves the operations on the browser data of profiles.
type ProfileData struct {
	Data profileData
}

type profileData interface {
	Deleted(ctx context.Context, directory string) (bool, error)
	List(ctx context.Context, orgID, profileID uuid.UUID) ([]profiledata.Version, error)
	Restore(ctx context.Context, orgID, profileID, id uuid.UUID) (profiledata.Version, error)
	Delete(ctx context.Context, orgID, profileID, id uuid.UUID) error
	Acquire(ctx context.Context, orgID uuid.UUID, r profiledata.Request) (profiledata.Access, error)
	Commit(ctx context.Context, orgID uuid.UUID, c profiledata.Commit) (profiledata.Version, error)
}

// CheckDeletedProfileData implements the operation checkDeletedProfileData.
func (h ProfileData) CheckDeletedProfileData(ctx context.Context, r cloudapi.CheckDeletedProfileDataRequestObject) (cloudapi.CheckDeletedProfileDataResponseObject, error) {
	deleted, err := h.Data.Deleted(ctx, r.Directory)
	if err != nil {
		return nil, err
	}
	return cloudapi.CheckDeletedProfileData200JSONResponse{Success: true, Data: cloudapi.DeletedProfileData{Deleted: deleted}}, nil
}

// ListProfileDataVersions implements the operation listProfileDataVersions.
func (h ProfileData) ListProfileDataVersions(ctx context.Context, r cloudapi.ListProfileDataVersionsRequestObject) (cloudapi.ListProfileDataVersionsResponseObject, error) {
	found, err := h.Data.List(ctx, auth.CallerFrom(ctx).OrgID, r.ProfileId)
	if err != nil {
		return nil, err
	}
	list := cloudapi.ProfileDataVersionList{Items: []cloudapi.ProfileDataVersion{}}
	for _, v := range found {
		list.Items = append(list.Items, dataVersionToAPI(v))
	}
	return cloudapi.ListProfileDataVersions200JSONResponse{Success: true, Data: list}, nil
}

// ActivateProfileDataVersion implements the operation activateProfileDataVersion.
func (h ProfileData) ActivateProfileDataVersion(ctx context.Context, r cloudapi.ActivateProfileDataVersionRequestObject) (cloudapi.ActivateProfileDataVersionResponseObject, error) {
	now, err := h.Data.Restore(ctx, auth.CallerFrom(ctx).OrgID, r.ProfileId, r.VersionId)
	if err != nil {
		return nil, err
	}
	return cloudapi.ActivateProfileDataVersion200JSONResponse{Success: true, Data: dataVersionToAPI(now)}, nil
}

// DeleteProfileDataVersion implements the operation deleteProfileDataVersion.
func (h ProfileData) DeleteProfileDataVersion(ctx context.Context, r cloudapi.DeleteProfileDataVersionRequestObject) (cloudapi.DeleteProfileDataVersionResponseObject, error) {
	if err := h.Data.Delete(ctx, auth.CallerFrom(ctx).OrgID, r.ProfileId, r.VersionId); err != nil {
		return nil, err
	}
	return cloudapi.DeleteProfileDataVersion200JSONResponse{Success: true, Data: cloudapi.Empty{}}, nil
}

// OpenProfileData implements the operation openProfileData.
func (h ProfileData) OpenProfileData(ctx context.Context, r cloudapi.OpenProfileDataRequestObject) (cloudapi.OpenProfileDataResponseObject, error) {
	access, err := h.Data.Acquire(ctx, auth.CallerFrom(ctx).OrgID, profiledata.Request{
		ProfileID: r.ProfileId, SessionID: r.Body.SessionId, MachineID: r.Body.MachineId, ReadOnly: valueOr(r.Body.ReadOnly, false),
	})
	if err != nil {
		return nil, err
	}
	return cloudapi.OpenProfileData200JSONResponse{Success: true, Data: cloudapi.ProfileDataAccess{
		VersionId: access.VersionID, Key: access.Key,
	}}, nil
}

// AddProfileDataVersion implements the operation addProfileDataVersion.
func (h ProfileData) AddProfileDataVersion(ctx context.Context, r cloudapi.AddProfileDataVersionRequestObject) (cloudapi.AddProfileDataVersionResponseObject, error) {
	version, err := h.Data.Commit(ctx, auth.CallerFrom(ctx).OrgID, profiledata.Commit{
		Version: profiledata.Version{
			ID: r.Body.Id, ProfileID: r.ProfileId, SessionID: r.Body.SessionId, MachineID: r.Body.MachineId,
			SizeBytes: r.Body.SizeBytes, SentBytes: r.Body.SentBytes,
		},
		Previous: r.Body.PreviousVersionId, Keep: int(r.Body.KeepVersions),
	})
	if err != nil {
		return nil, err
	}
	return cloudapi.AddProfileDataVersion200JSONResponse{Success: true, Data: dataVersionToAPI(version)}, nil
}

func dataVersionToAPI(v profiledata.Version) cloudapi.ProfileDataVersion {
	state := cloudapi.Kept
	if v.Current {
		state = cloudapi.Current
	}
	return cloudapi.ProfileDataVersion{
		Id: v.ID, ProfileId: v.ProfileID, SessionId: v.SessionID, MachineId: v.MachineID,
		SizeBytes: v.SizeBytes, SentBytes: v.SentBytes, State: state, CreatedAt: v.CreatedAt.UTC(),
	}
}
