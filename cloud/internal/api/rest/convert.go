package rest

import (
	"time"

	"github.com/browser-svc/svc/cloud/internal/browsers/profile"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/certs"
)

// draftFromCreate converts a create request to a profile draft.
func draftFromCreate(r cloudapi.CreateProfileRequest) profile.Draft {
	proxy, password := proxyFromAPI(r.Proxy)
	return profile.Draft{
		Fields: profile.Fields{
			Name:           r.Name,
			Notes:          valueOr(r.Notes, ""),
			Tags:           valueOr(r.Tags, nil),
			BrowserVersion: r.BrowserVersion,
			OS:             (*string)(r.Os),
			Persist:        valueOr(r.Persist, false),
			Metadata:       valueOr(r.Metadata, nil),
			Settings: profile.Settings{
				OSVersion:         r.OsVersion,
				WindowsVersion:    (*string)(r.WindowsVersion),
				OSArch:            (*string)(r.OsArch),
				Model:             r.Model,
				Renderer:          r.Renderer,
				GPUName:           r.GpuName,
				UserAgent:         r.UserAgent,
				Locale:            r.Locale,
				TimezoneID:        r.TimezoneId,
				ColorScheme:       (*string)(r.ColorScheme),
				Viewport:          (*profile.Size)(r.Viewport),
				Screen:            (*profile.Size)(r.Screen),
				DeviceScaleFactor: r.DeviceScaleFactor,
				IsMobile:          r.IsMobile,
				HasTouch:          r.HasTouch,
				Geolocation:       (*profile.Geolocation)(r.Geolocation),
				Permissions:       convertStrings[string](valueOr(r.Permissions, nil)),
				ExtraHTTPHeaders:  valueOr(r.ExtraHTTPHeaders, nil),
				IgnoreHTTPSErrors: r.IgnoreHTTPSErrors,
				Proxy:             proxy,
				Args:              valueOr(r.Args, nil),
				StartURLs:         valueOr(r.StartUrls, nil),
				Record:            convertStrings[string](valueOr(r.Record, nil)),
				CACertificates:    valueOr(r.CaCertificates, nil),

				IdleTimeoutSeconds: r.IdleTimeoutSeconds,
				MaxDurationSeconds: r.MaxDurationSeconds,
			},
		},
		ProxyPassword:      password,
		ClientCertificates: clientsFromAPI(valueOr(r.ClientCertificates, nil)),
	}
}

// draftFromSpec converts a launch spec to the draft of an ephemeral profile.
func draftFromSpec(s sharedapi.LaunchSpec) profile.Draft {
	return draftFromCreate(cloudapi.CreateProfileRequest{
		Name:              valueOr(s.Name, ""),
		BrowserVersion:    valueOr(s.BrowserVersion, 0),
		Os:                s.Os,
		OsVersion:         s.OsVersion,
		WindowsVersion:    s.WindowsVersion,
		OsArch:            s.OsArch,
		Model:             s.Model,
		Renderer:          s.Renderer,
		GpuName:           s.GpuName,
		UserAgent:         s.UserAgent,
		Locale:            s.Locale,
		TimezoneId:        s.TimezoneId,
		ColorScheme:       s.ColorScheme,
		Viewport:          s.Viewport,
		Screen:            s.Screen,
		DeviceScaleFactor: s.DeviceScaleFactor,
		IsMobile:          s.IsMobile,
		HasTouch:          s.HasTouch,
		Geolocation:       s.Geolocation,
		Permissions:       s.Permissions,
		ExtraHTTPHeaders:  s.ExtraHTTPHeaders,
		IgnoreHTTPSErrors: s.IgnoreHTTPSErrors,
		Proxy:             s.Proxy,
		Args:              s.Args,
		StartUrls:         s.StartUrls,
		Metadata:          s.Metadata,
	})
}

func clientsFromAPI(list sharedapi.ClientCertificates) (inputs []certs.ClientInput) {
	for _, c := range list {
		inputs = append(inputs, certs.ClientInput{Origin: c.Origin, Cert: valueOr(c.Cert, ""), Key: valueOr(c.Key, ""),
			PFX: valueOr(c.Pfx, ""), Passphrase: valueOr(c.Passphrase, "")})
	}
	return inputs
}

func proxyFromAPI(p *sharedapi.ProxySettings) (proxy *profile.Proxy, password *string) {
	if p == nil {
		return nil, nil
	}
	return &profile.Proxy{Server: p.Server, Bypass: p.Bypass, Username: p.Username}, p.Password
}

// profileToAPI converts a profile. Lists and maps are never null.
func profileToAPI(p profile.Profile) cloudapi.Profile {
	c := configFromProfile(profile.Config{Profile: p})
	shown := cloudapi.Profile{
		Id:                p.ID,
		OrganizationId:    p.OrganizationID,
		Name:              c.Name,
		Notes:             p.Notes,
		Tags:              nonNil(p.Tags),
		BrowserVersion:    c.BrowserVersion,
		Os:                c.Os,
		OsVersion:         c.OsVersion,
		WindowsVersion:    c.WindowsVersion,
		OsArch:            c.OsArch,
		Model:             c.Model,
		Renderer:          c.Renderer,
		GpuName:           c.GpuName,
		UserAgent:         c.UserAgent,
		Locale:            c.Locale,
		TimezoneId:        c.TimezoneId,
		ColorScheme:       c.ColorScheme,
		Viewport:          c.Viewport,
		Screen:            c.Screen,
		DeviceScaleFactor: c.DeviceScaleFactor,
		IsMobile:          c.IsMobile,
		HasTouch:          c.HasTouch,
		Geolocation:       c.Geolocation,
		Permissions:       c.Permissions,
		ExtraHTTPHeaders:  c.ExtraHTTPHeaders,
		IgnoreHTTPSErrors: c.IgnoreHTTPSErrors,
		Args:              c.Args,
		StartUrls:         c.StartUrls,
		Record:            c.Record,
		CaCertificates:    c.CaCertificates,
		Persist:           c.Persist,
		Metadata:          c.Metadata,
		Version:           c.Version,
		Ephemeral:         c.Ephemeral,
		ActiveSessions:    int32(p.ActiveSessions),
		LastUsedAt:        p.LastUsedAt,
		CreatedBy:         p.CreatedBy,
		CreatedAt:         p.CreatedAt,
		UpdatedAt:         p.UpdatedAt,

		IdleTimeoutSeconds: c.IdleTimeoutSeconds,
		MaxDurationSeconds: c.MaxDurationSeconds,
	}
	if p.Proxy != nil {
		shown.Proxy = &cloudapi.ProfileProxy{Server: p.Proxy.Server, Bypass: p.Proxy.Bypass,
			Username: p.Proxy.Username, HasPassword: p.HasProxyPassword}
	}
	shown.ClientCertificates = cloudapi.ProfileClientCertificates{}
	for _, c := range p.ClientCertificates {
		shown.ClientCertificates = append(shown.ClientCertificates, cloudapi.ProfileClientCertificate(c))
	}
	return shown
}

// configFromProfile converts the configuration that a worker needs to launch a
// profile, including its secrets. Lists and maps are never null.
func configFromProfile(p profile.Config) cloudapi.ProfileConfig {
	config := cloudapi.ProfileConfig{
		ProfileId:         p.ID,
		Name:              p.Name,
		Ephemeral:         p.Ephemeral,
		BrowserVersion:    p.BrowserVersion,
		Os:                (*sharedapi.OperatingSystem)(p.OS),
		OsVersion:         p.OSVersion,
		WindowsVersion:    (*sharedapi.WindowsVersion)(p.WindowsVersion),
		OsArch:            (*sharedapi.OsArch)(p.OSArch),
		Model:             p.Model,
		Renderer:          p.Renderer,
		GpuName:           p.GPUName,
		UserAgent:         p.UserAgent,
		Locale:            p.Locale,
		TimezoneId:        p.TimezoneID,
		ColorScheme:       (*sharedapi.ColorScheme)(p.ColorScheme),
		Viewport:          (*sharedapi.SizeOrNull)(p.Viewport),
		Screen:            (*sharedapi.SizeOrNull)(p.Screen),
		DeviceScaleFactor: p.DeviceScaleFactor,
		IsMobile:          p.IsMobile,
		HasTouch:          p.HasTouch,
		Geolocation:       (*sharedapi.Geolocation)(p.Geolocation),
		Permissions:       convertStrings[sharedapi.Permission](p.Permissions),
		ExtraHTTPHeaders:  nonNilMap(p.ExtraHTTPHeaders),
		IgnoreHTTPSErrors: p.IgnoreHTTPSErrors,
		Args:              nonNil(p.Args),
		StartUrls:         nonNil(p.StartURLs),
		Record:            convertStrings[sharedapi.RecordingPart](p.Record),
		CaCertificates:    nonNil(p.CACertificates),
		Persist:           p.Persist,
		Metadata:          nonNilMap(p.Metadata),
		Version:           p.Version,

		IdleTimeoutSeconds: p.IdleTimeoutSeconds,
		MaxDurationSeconds: p.MaxDurationSeconds,
	}
	if p.Proxy != nil {
		config.Proxy = &cloudapi.LaunchProxy{Server: p.Proxy.Server, Bypass: p.Proxy.Bypass,
			Username: p.Proxy.Username, Password: p.ProxyPassword}
	}
	config.ClientCertificates = cloudapi.LaunchClientCertificates{}
	for _, c := range p.ClientKeys {
		config.ClientCertificates = append(config.ClientCertificates, cloudapi.LaunchClientCertificate{Origin: c.Origin, Cert: c.Cert, Key: c.Key})
	}
	return config
}

// convertStrings converts a list to another string type; the result is never nil.
func convertStrings[To, From ~string](from []From) []To {
	to := make([]To, len(from))
	for i, s := range from {
		to[i] = To(s)
	}
	return to
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
