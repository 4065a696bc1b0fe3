package launch

import (
	"fmt"
	"maps"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/proxyaddr"
	"github.com/browser-svc/svc/shared/switches"
	"github.com/browser-svc/svc/worker/internal/browser"
)

// over returns the settings of s, and those of base where s sets none.
// Metadata of the two is merged; s wins.
func (s Settings) over(base Settings) Settings {
	merged := base
	pick(&merged.UserAgent, s.UserAgent)
	pick(&merged.Locale, s.Locale)
	pick(&merged.TimezoneID, s.TimezoneID)
	pick(&merged.ColorScheme, s.ColorScheme)
	pick(&merged.Viewport, s.Viewport)
	pick(&merged.Screen, s.Screen)
	pick(&merged.DeviceScaleFactor, s.DeviceScaleFactor)
	pick(&merged.IsMobile, s.IsMobile)
	pick(&merged.HasTouch, s.HasTouch)
	pick(&merged.Geolocation, s.Geolocation)
	pick(&merged.IgnoreHTTPSErrors, s.IgnoreHTTPSErrors)
	pick(&merged.Proxy, s.Proxy)
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
	merged.Metadata = maps.Clone(base.Metadata)
	if merged.Metadata == nil {
		merged.Metadata = map[string]string{}
	}
	maps.Copy(merged.Metadata, s.Metadata)
	return merged
}

func pick[T any](into **T, from *T) {
	if from != nil {
		*into = from
	}
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// spec is what the browser package is asked for; ids, build, proxy and
// directories are the caller's.
func (s Settings) spec() browser.Spec {
	return browser.Spec{
		UserAgent:         value(s.UserAgent),
		Locale:            value(s.Locale),
		TimezoneID:        value(s.TimezoneID),
		ColorScheme:       value(s.ColorScheme),
		Viewport:          s.Viewport,
		Screen:            s.Screen,
		DeviceScaleFactor: value(s.DeviceScaleFactor),
		IsMobile:          value(s.IsMobile),
		HasTouch:          value(s.HasTouch),
		Geolocation:       s.Geolocation,
		Permissions:       s.Permissions,
		ExtraHTTPHeaders:  s.ExtraHTTPHeaders,
		IgnoreHTTPSErrors: value(s.IgnoreHTTPSErrors),
		Args:              s.Args,
		StartURLs:         s.StartURLs,
	}
}

// check returns what the document cannot say of a launch's own settings; each
// offending field has an entry.
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
			details = append(details, fault.Detail{Field: prefix + "timezoneId", Code: fault.InvalidFormat, Message: "is not a time zone that is known here", Received: *s.TimezoneID})
		}
	}
	return append(details, s.Proxy.check("proxyOverride.")...)
}

// check returns what makes a proxy unusable; no proxy is fine.
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
