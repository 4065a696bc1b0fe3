package launch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/proxyaddr"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/shared/switches"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/session"
)

// settings merges the settings of a launch: the request overrides the profile, which
// overrides the matching bundle. The criteria come from the spec, because the cloud
// does not know this machine's bundles, or else from the profile.
func (s *Service) settings(request Request, profile Profile) (Settings, session.Bundle) {
	base, criteria, filename := profile.Settings, profile.Criteria, ""
	if request.Spec != nil {
		criteria, filename = request.Spec.Criteria, request.Spec.Filename
	}
	if len(base.StartURLs) == 0 {
		base.StartURLs = nil // a profile from the cloud always has its lists
	}
	var chosen session.Bundle
	if found, ok := s.findBundle(filename, criteria, profile.BrowserVersion); ok {
		base.Settings = base.WithDefaults(settings.Settings{Emulation: found.For(profile.BrowserVersion).Emulation})
		chosen = session.Bundle{Filename: found.Filename, Name: found.Name}
	}
	merged := request.Override.withDefaults(base)
	if request.Direct {
		merged.Proxy = nil
	}
	return merged, chosen
}

// withDefaults returns s, with the settings of base where s sets none. The metadata
// of both is merged; s takes precedence.
func (s Settings) withDefaults(base Settings) Settings {
	s.Settings = s.WithDefaults(base.Settings)
	s.ConnectTimeoutSeconds = cmp.Or(s.ConnectTimeoutSeconds, base.ConnectTimeoutSeconds)
	if s.ClientCertificates == nil {
		s.ClientCertificates = base.ClientCertificates
	}
	metadata := maps.Clone(base.Metadata)
	if metadata == nil {
		metadata = map[string]string{}
	}
	maps.Copy(metadata, s.Metadata)
	s.Metadata = metadata
	return s
}

// limits returns the limits that the settings change.
func (s Settings) limits() LimitChanges {
	return NewLimitChanges(s.IdleTimeoutSeconds, s.MaxDurationSeconds, s.ConnectTimeoutSeconds)
}

// NewLimitChanges converts limits in seconds.
func NewLimitChanges(idle, most, connect *int32) LimitChanges {
	duration := func(seconds *int32) *time.Duration {
		if seconds == nil {
			return nil
		}
		return new(time.Duration(*seconds) * time.Second)
	}
	return LimitChanges{Idle: duration(idle), Max: duration(most), Connect: duration(connect)}
}

// check returns the errors that the API document cannot express, one for each
// invalid field.
func (s Settings) check(prefix string) []fault.Detail {
	var details []fault.Detail
	for i, arg := range s.Args {
		if reason, refused := switches.Refused(arg); refused {
			details = append(details, fault.Detail{Field: fmt.Sprintf("%sargs[%d]", prefix, i), Code: fault.Custom, Message: reason, Received: arg})
		}
	}
	for i, address := range s.StartURLs {
		if !browser.ValidStartURL(address) {
			details = append(details, fault.Detail{Field: fmt.Sprintf("%sstartUrls[%d]", prefix, i), Code: fault.Custom, Message: "must be an http or https URL with a host, or about:blank", Received: address})
		}
	}
	if _, err := time.LoadLocation(s.TimezoneID); err != nil {
		details = append(details, fault.Detail{Field: prefix + "timezoneId", Code: fault.InvalidFormat, Message: "must be a known IANA time zone", Received: s.TimezoneID})
	}
	return slices.Concat(details, s.Network.Check(prefix+"network."), s.checkTrust(prefix), checkProxyAddress(s.Proxy, "proxyOverride."))
}

// checkProxyAddress returns the errors of a proxy. A nil proxy is valid.
func checkProxyAddress(p *settings.Proxy, prefix string) []fault.Detail {
	if p == nil {
		return nil
	}
	var details []fault.Detail
	for _, problem := range proxyaddr.Check(p.Server, p.Username, p.Password) {
		details = append(details, fault.Detail{Field: prefix + problem.Field, Code: fault.Custom, Message: problem.Message})
	}
	return details
}
