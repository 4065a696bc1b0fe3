package launch

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/proxyaddr"
	"github.com/browser-svc/svc/shared/switches"
	"github.com/browser-svc/svc/worker/internal/browser"
)

// withDefaults returns s, with the settings of base where s sets none. The metadata
// of both is merged; s takes precedence.
func (s Settings) withDefaults(base Settings) Settings {
	merged := base
	override(&merged.UserAgent, s.UserAgent)
	override(&merged.Locale, s.Locale)
	override(&merged.TimezoneID, s.TimezoneID)
	override(&merged.ColorScheme, s.ColorScheme)
	override(&merged.Viewport, s.Viewport)
	override(&merged.Screen, s.Screen)
	override(&merged.DeviceScaleFactor, s.DeviceScaleFactor)
	override(&merged.IsMobile, s.IsMobile)
	override(&merged.HasTouch, s.HasTouch)
	override(&merged.Geolocation, s.Geolocation)
	override(&merged.IgnoreHTTPSErrors, s.IgnoreHTTPSErrors)
	override(&merged.Proxy, s.Proxy)
	override(&merged.Record, s.Record)
	override(&merged.Limits.Idle, s.Limits.Idle)
	override(&merged.Limits.Max, s.Limits.Max)
	override(&merged.Limits.Connect, s.Limits.Connect)
	if s.Permissions != nil {
		merged.Permissions = s.Permissions
	}
	if s.ExtraHTTPHeaders != nil {
		merged.ExtraHTTPHeaders = s.ExtraHTTPHeaders
	}
	if s.Args != nil {
		merged.Args = s.Args
	}
	if s.StartURLs != nil {
		merged.StartURLs = s.StartURLs
	}
	if s.CACertificates != nil {
		merged.CACertificates = s.CACertificates
	}
	if s.ClientCertificates != nil {
		merged.ClientCertificates = s.ClientCertificates
	}
	merged.Metadata = maps.Clone(base.Metadata)
	if merged.Metadata == nil {
		merged.Metadata = map[string]string{}
	}
	maps.Copy(merged.Metadata, s.Metadata)
	return merged
}

func override[T any](into **T, from *T) {
	if from != nil {
		*into = from
	}
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// browserSpec converts the settings. The caller adds ids, build, proxy and
// directories.
func (s Settings) browserSpec() browser.Spec {
	return browser.Spec{
		UserAgent:         deref(s.UserAgent),
		Locale:            deref(s.Locale),
		TimezoneID:        deref(s.TimezoneID),
		ColorScheme:       deref(s.ColorScheme),
		Viewport:          s.Viewport,
		Screen:            s.Screen,
		DeviceScaleFactor: deref(s.DeviceScaleFactor),
		IsMobile:          deref(s.IsMobile),
		HasTouch:          deref(s.HasTouch),
		Geolocation:       s.Geolocation,
		Permissions:       s.Permissions,
		ExtraHTTPHeaders:  s.ExtraHTTPHeaders,
		IgnoreHTTPSErrors: deref(s.IgnoreHTTPSErrors),
		Args:              s.Args,
		StartURLs:         s.StartURLs,
	}
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
	if s.TimezoneID != nil {
		if _, err := time.LoadLocation(*s.TimezoneID); err != nil {
			details = append(details, fault.Detail{Field: prefix + "timezoneId", Code: fault.InvalidFormat, Message: "must be a known IANA time zone", Received: *s.TimezoneID})
		}
	}
	return slices.Concat(details, s.checkTrust(prefix), s.Proxy.check("proxyOverride."))
}

// check returns the errors of a proxy. A nil proxy is valid.
func (p *Proxy) check(prefix string) []fault.Detail {
	if p == nil {
		return nil
	}
	var details []fault.Detail
	for _, problem := range proxyaddr.Check(p.Server, p.Username, p.Password) {
		details = append(details, fault.Detail{Field: prefix + problem.Field, Code: fault.Custom, Message: problem.Message})
	}
	return details
}
