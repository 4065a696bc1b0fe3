package app

import (
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/bundle"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// bundles adapts the worker's bundles to package launch.
type bundles struct{ *bundle.Set }

// Match implements launch.Bundles.
func (b bundles) Match(c launch.Criteria, version int) (launch.Bundle, bool) {
	criteria := toCriteria(c, version)
	if c.Filename == "" {
		found, ok := b.Set.Match(criteria)
		return toLaunchBundle(found, version), ok
	}
	found, ok := b.Set.ByFilename(c.Filename)
	return toLaunchBundle(found, version), ok && len(criteria.Mismatches(found)) == 0
}

// ByFilename implements launch.Bundles.
func (b bundles) ByFilename(c launch.Criteria, version int) (launch.Bundle, []launch.Mismatch, bool) {
	found, ok := b.Set.ByFilename(c.Filename)
	if !ok {
		return launch.Bundle{}, nil, false
	}
	var misfits []launch.Mismatch
	for _, misfit := range toCriteria(c, version).Mismatches(found) {
		misfits = append(misfits, launch.Mismatch(misfit))
	}
	return toLaunchBundle(found, version), misfits, true
}

func toCriteria(c launch.Criteria, version int) bundle.Criteria {
	return bundle.Criteria{
		OS: c.OS, OSVersion: c.OSVersion, WindowsVersion: c.WindowsVersion, OSArch: c.OSArch,
		Model: c.Model, Renderer: c.Renderer, GPUName: c.GPUName, BrowserVersion: version,
	}
}

// toLaunchBundle converts a bundle for a browser of that major version. Bundles
// are the lowest layer of settings, so an empty value means unset.
func toLaunchBundle(found bundle.Bundle, version int) launch.Bundle {
	shown := found.For(version)
	return launch.Bundle{
		Bundle: session.Bundle{Filename: found.Filename, Name: found.Name}, BrowserVersion: found.BrowserVersion,
		Settings: launch.Settings{
			UserAgent: new(shown.UserAgent), Locale: new(shown.Locale), TimezoneID: new(shown.TimezoneID), ColorScheme: new(shown.ColorScheme),
			Viewport: size(shown.Viewport), Screen: size(shown.Screen), DeviceScaleFactor: new(shown.DeviceScaleFactor),
			IsMobile: new(shown.IsMobile), HasTouch: new(shown.HasTouch),
		},
	}
}

func size(s *bundle.Size) *browser.Size {
	if s == nil {
		return nil
	}
	return &browser.Size{Width: s.Width, Height: s.Height}
}
