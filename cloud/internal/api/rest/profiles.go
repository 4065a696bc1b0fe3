package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/browsers/profile"
	"github.com/browser-svc/svc/cloud/internal/tenancy/usage"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
)

// Profiles serves the profiles operations, and getProfileConfig for workers.
type Profiles struct {
	Profiles profiles
	Requests requests
}

// requests returns how many requests an organization has left.
type requests interface {
	Read(ctx context.Context, orgID uuid.UUID) (usage.Usage, error)
}

type profiles interface {
	Create(ctx context.Context, orgID, createdBy uuid.UUID, draft profile.Draft) (profile.Profile, error)
	Get(ctx context.Context, orgID, id uuid.UUID) (profile.Profile, error)
	List(ctx context.Context, orgID uuid.UUID, f profile.Filter, r page.Request) (page.Page[profile.Profile], error)
	Update(ctx context.Context, orgID, id uuid.UUID, ifMatch *int64, patch json.RawMessage) (profile.Profile, error)
	Delete(ctx context.Context, orgID, id uuid.UUID, ifMatch *int64) error
	Duplicate(ctx context.Context, orgID, id, createdBy uuid.UUID, name *string) (profile.Profile, error)
	Stats(ctx context.Context, orgID uuid.UUID) (profile.Stats, error)
	Config(ctx context.Context, orgID, id uuid.UUID) (profile.Config, error)
}

// ListProfiles implements the operation listProfiles.
func (h Profiles) ListProfiles(ctx context.Context, r cloudapi.ListProfilesRequestObject) (cloudapi.ListProfilesResponseObject, error) {
	p := r.Params
	sortBy := valueOr(p.SortBy, cloudapi.ProfileSortFieldCreatedAt)
	found, err := h.Profiles.List(ctx, auth.CallerFrom(ctx).OrgID,
		profile.Filter{Search: valueOr(p.Search, ""), OS: (*string)(p.Os), BrowserVersion: p.BrowserVersion, Tag: p.Tag},
		pageapi.Request(p.Page, p.Limit, string(sortBy), p.SortOrder))
	if err != nil {
		return nil, err
	}
	list := cloudapi.ProfileList{Items: []cloudapi.Profile{}, Pagination: pageapi.Pagination(found)}
	for _, item := range found.Items {
		entry, err := profileToAPI(item)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, entry)
	}
	return cloudapi.ListProfiles200JSONResponse{Success: true, Data: list}, nil
}

// CreateProfile implements the operation createProfile.
func (h Profiles) CreateProfile(ctx context.Context, r cloudapi.CreateProfileRequestObject) (cloudapi.CreateProfileResponseObject, error) {
	caller := auth.CallerFrom(ctx)
	draft, err := draftFromCreate(*r.Body)
	if err != nil {
		return nil, err
	}
	created, err := h.Profiles.Create(ctx, caller.OrgID, caller.UserID, draft)
	if err != nil {
		return nil, err
	}
	body, err := profileResponse(created)
	return cloudapi.CreateProfile201JSONResponse{
		Body:    body,
		Headers: cloudapi.CreateProfile201ResponseHeaders{ETag: etag(created), Location: profileLocation(created)},
	}, err
}

// GetProfile implements the operation getProfile.
func (h Profiles) GetProfile(ctx context.Context, r cloudapi.GetProfileRequestObject) (cloudapi.GetProfileResponseObject, error) {
	found, err := h.Profiles.Get(ctx, auth.CallerFrom(ctx).OrgID, r.ProfileId)
	if err != nil {
		return nil, err
	}
	body, err := profileResponse(found)
	return cloudapi.GetProfile200JSONResponse{
		Body: body, Headers: cloudapi.GetProfile200ResponseHeaders{ETag: etag(found)},
	}, err
}

// UpdateProfile implements the operation updateProfile.
func (h Profiles) UpdateProfile(ctx context.Context, r cloudapi.UpdateProfileRequestObject) (cloudapi.UpdateProfileResponseObject, error) {
	updated, err := h.Profiles.Update(ctx, auth.CallerFrom(ctx).OrgID, r.ProfileId, ifMatch(r.Params.IfMatch), *r.Body)
	if err != nil {
		return nil, err
	}
	body, err := profileResponse(updated)
	return cloudapi.UpdateProfile200JSONResponse{
		Body: body, Headers: cloudapi.UpdateProfile200ResponseHeaders{ETag: etag(updated)},
	}, err
}

// DeleteProfile implements the operation deleteProfile.
func (h Profiles) DeleteProfile(ctx context.Context, r cloudapi.DeleteProfileRequestObject) (cloudapi.DeleteProfileResponseObject, error) {
	err := h.Profiles.Delete(ctx, auth.CallerFrom(ctx).OrgID, r.ProfileId, ifMatch(r.Params.IfMatch))
	if err != nil {
		return nil, err
	}
	return cloudapi.DeleteProfile200JSONResponse{Success: true, Data: cloudapi.Empty{}}, nil
}

// DuplicateProfile implements the operation duplicateProfile.
func (h Profiles) DuplicateProfile(ctx context.Context, r cloudapi.DuplicateProfileRequestObject) (cloudapi.DuplicateProfileResponseObject, error) {
	caller := auth.CallerFrom(ctx)
	name := valueOr(r.Body, cloudapi.DuplicateProfileRequest{}).Name
	created, err := h.Profiles.Duplicate(ctx, caller.OrgID, r.ProfileId, caller.UserID, name)
	if err != nil {
		return nil, err
	}
	body, err := profileResponse(created)
	return cloudapi.DuplicateProfile201JSONResponse{
		Body:    body,
		Headers: cloudapi.DuplicateProfile201ResponseHeaders{ETag: etag(created), Location: profileLocation(created)},
	}, err
}

// GetProfileStats implements the operation getProfileStats.
func (h Profiles) GetProfileStats(ctx context.Context, _ cloudapi.GetProfileStatsRequestObject) (cloudapi.GetProfileStatsResponseObject, error) {
	orgID := auth.CallerFrom(ctx).OrgID
	stats, err := h.Profiles.Stats(ctx, orgID)
	if err != nil {
		return nil, err
	}
	requests, err := h.Requests.Read(ctx, orgID)
	if err != nil {
		return nil, err
	}
	return cloudapi.GetProfileStats200JSONResponse{Success: true, Data: cloudapi.ProfileStats{
		TotalProfiles:     int32(stats.TotalProfiles),
		EphemeralProfiles: int32(stats.EphemeralProfiles),
		ActiveProfiles:    int32(stats.ActiveProfiles),
		ProfileLimit:      limit(stats.ProfileLimit),
		MemberLimit:       limit(stats.MemberLimit),
		ApiRpmLimit:       limit(stats.APIRpmLimit),
		ApiRphLimit:       limit(stats.APIRphLimit),
		ApiRpmUsed:        requests.Minute.Used,
		ApiRpmRemaining:   requests.Minute.Remaining(),
		ApiRphUsed:        requests.Hour.Used,
		ApiRphRemaining:   requests.Hour.Remaining(),
	}}, nil
}

// GetProfileConfig implements the operation getProfileConfig.
func (h Profiles) GetProfileConfig(ctx context.Context, r cloudapi.GetProfileConfigRequestObject) (cloudapi.GetProfileConfigResponseObject, error) {
	config, err := h.Profiles.Config(ctx, auth.CallerFrom(ctx).OrgID, r.ProfileId)
	if err != nil {
		return nil, err
	}
	data, err := configFromProfile(config)
	return cloudapi.GetProfileConfig200JSONResponse{Success: true, Data: data}, err
}

func profileResponse(p profile.Profile) (cloudapi.ProfileResponse, error) {
	data, err := profileToAPI(p)
	return cloudapi.ProfileResponse{Success: true, Data: data}, err
}

func profileLocation(p profile.Profile) string { return "/v1/profiles/" + p.ID.String() }

func etag(p profile.Profile) string { return fmt.Sprintf(`"%d"`, p.Version) }

// ifMatch returns the version in the If-Match header, or nil for any. The guard
// has checked its format.
func ifMatch(header *string) *int64 {
	if header == nil {
		return nil
	}
	version, err := strconv.ParseInt(strings.Trim(*header, `"`), 10, 64)
	if err != nil { // *
		return nil
	}
	return &version
}
