package rest

import (
	"reflect"
	"time"

	"github.com/browser-svc/svc/cloud/internal/browsers/profile"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/certs"
	"github.com/browser-svc/svc/shared/settings"
)

// draftFromCreate converts a create request to a profile draft.
func draftFromCreate(r cloudapi.CreateProfileRequest) (profile.Draft, error) {
	draft, err := newDraft(r, r.Proxy)
	if err == nil {
		draft.ClientCertificates, err = settings.Convert[[]certs.ClientInput](r.ClientCertificates)
	}
	return draft, err
}

// draftFromSpec converts a launch spec to the draft of an ephemeral profile.
func draftFromSpec(s sharedapi.LaunchSpec) (profile.Draft, error) { return newDraft(s, s.Proxy) }

// newDraft converts a request with the fields of a profile.
func newDraft(request any, proxy *sharedapi.ProxySettings) (draft profile.Draft, err error) {
	draft.Fields, err = settings.Convert[profile.Fields](request)
	if proxy != nil {
		draft.ProxyPassword = proxy.Password
	}
	return draft, err
}

// profileToAPI converts a profile. Lists and maps are never null.
func profileToAPI(p profile.Profile) (cloudapi.Profile, error) {
	result, err := settings.Convert[cloudapi.Profile](p)
	fillEmpty(&result)
	if result.Proxy != nil {
		result.Proxy.HasPassword = p.HasProxyPassword
	}
	return result, err
}

// configFromProfile converts the configuration that a worker needs to launch a
// profile, including its secrets. Lists and maps are never null.
func configFromProfile(p profile.Config) (cloudapi.ProfileConfig, error) {
	config, err := settings.Convert[cloudapi.ProfileConfig](p.Fields)
	fillEmpty(&config)
	if err != nil {
		return config, err
	}
	config.ProfileId, config.Ephemeral, config.Version = p.ID, p.Ephemeral, p.Version
	config.OrganizationNetwork, err = settings.Convert[*sharedapi.StoredNetworkRules](p.OrganizationNetwork)
	if config.Proxy != nil {
		config.Proxy.Password = p.ProxyPassword
	}
	for _, c := range p.ClientKeys {
		config.ClientCertificates = append(config.ClientCertificates, cloudapi.LaunchClientCertificate{Origin: c.Origin, Cert: c.Cert, Key: c.Key})
	}
	return config, err
}

// fillEmpty replaces the nil lists and maps of a struct by empty ones.
func fillEmpty(target any) {
	fields := reflect.ValueOf(target).Elem()
	for i := range fields.NumField() {
		switch field := fields.Field(i); {
		case field.Kind() == reflect.Slice && field.IsNil():
			field.Set(reflect.MakeSlice(field.Type(), 0, 0))
		case field.Kind() == reflect.Map && field.IsNil():
			field.Set(reflect.MakeMap(field.Type()))
		}
	}
}

// nonNil returns the list, or an empty one for nil.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// nonNilMap returns the map, or an empty one for nil.
func nonNilMap(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// utcTime converts a time to UTC: PostgreSQL refuses offsets of 16 hours and
// more, which RFC 3339 allows.
func utcTime(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}

// valueOr returns the value of the pointer, or the fallback if it is nil.
func valueOr[T any](p *T, fallback T) T {
	if p == nil {
		return fallback
	}
	return *p
}
