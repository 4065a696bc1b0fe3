package svc

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"os"

	"github.com/browser-svc/svc/gen/cloudapi"
)

// Profile is a stored profile.
type Profile = cloudapi.Profile

// CloudOptions describe a cloud.
type CloudOptions struct {
	URL        string       // by default SVC_CLOUD_URL
	Token      string       // an access token (POST /v1/auth/tokens); by default SVC_TOKEN
	HTTPClient *http.Client // as in Options
}

// Cloud calls the cloud for a person. It can be used concurrently.
type Cloud struct{ api api }

// NewCloud returns a client. It sends no request.
func NewCloud(options CloudOptions) (*Cloud, error) {
	a, err := newAPI(cmp.Or(options.URL, os.Getenv("SVC_CLOUD_URL")), "Authorization", "Bearer "+cmp.Or(options.Token, os.Getenv("SVC_TOKEN")), options.HTTPClient)
	return &Cloud{a}, err
}

// Profiles returns all profiles of the organization of the token.
func (c *Cloud) Profiles(ctx context.Context) ([]Profile, error) {
	return list[Profile](ctx, c.api, "/v1/profiles", url.Values{})
}

// CreateProfile creates a profile. Fields is a cloudapi.CreateProfileRequest, or a map with its fields.
func (c *Cloud) CreateProfile(ctx context.Context, fields any) (Profile, error) {
	var created Profile
	err := c.api.call(ctx, http.MethodPost, "/v1/profiles", fields, &created)
	return created, err
}

// UpdateProfile changes the fields of a profile: a map with fields of UpdateProfileRequest.
func (c *Cloud) UpdateProfile(ctx context.Context, id string, fields any) (Profile, error) {
	var updated Profile
	err := c.api.call(ctx, http.MethodPatch, "/v1/profiles/"+url.PathEscape(id), fields, &updated)
	return updated, err
}
