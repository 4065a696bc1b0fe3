package browser

import "github.com/browser-svc/svc/shared/settings"

type setting struct {
	method string
	params any
}

// defaultLocale is the locale of a browser without locale settings.
const defaultLocale = "en-US"

type object = map[string]any

// needsEmulation reports whether pages need settings that switches cannot make.
// Otherwise the worker attaches to no page, so that it does not interfere with
// clients.
func needsEmulation(s *Spec) bool {
	return len(pageSettings(s)) > 0 || len(frameSettings(s)) > 0 || len(s.Permissions) > 0
}

// pageSettings apply to a page with all its frames.
func pageSettings(s *Spec) []setting {
	var out []setting
	if s.emulatesMetrics() {
		out = append(out, setting{"Emulation.setDeviceMetricsOverride", deviceMetrics(s)})
	}
	if settings.Enabled(s.HasTouch) {
		out = append(out, setting{"Emulation.setTouchEmulationEnabled", object{"enabled": true, "maxTouchPoints": 5}})
	}
	if g := s.Geolocation; g != nil {
		accuracy := 0.0
		if g.Accuracy != nil {
			accuracy = *g.Accuracy
		}
		out = append(out, setting{"Emulation.setGeolocationOverride",
			object{"latitude": g.Latitude, "longitude": g.Longitude, "accuracy": accuracy}})
	}
	if s.Rules.Uploads().Denied {
		out = append(out, setting{"Page.setInterceptFileChooserDialog", object{"enabled": true, "cancel": true}})
	}
	return out
}

func deviceMetrics(s *Spec) object {
	m := object{"width": 0, "height": 0, "deviceScaleFactor": s.DeviceScaleFactor, "mobile": settings.Enabled(s.IsMobile)}
	if s.Viewport != nil {
		m["width"], m["height"] = s.Viewport.Width, s.Viewport.Height
	}
	screen := s.Screen
	if screen == nil && settings.Enabled(s.IsMobile) {
		screen = s.Viewport
	}
	if screen != nil {
		m["screenWidth"], m["screenHeight"] = screen.Width, screen.Height
	}
	return m
}

// bypassesServiceWorkers reports whether there can be a service worker of a denied document,
// which would get its request before the guard does: one of an earlier launch, or of another
// path of the same host.
func (s *Spec) bypassesServiceWorkers() bool {
	return s.Rules.FiltersPaths() || s.Rules.FiltersNavigation() && s.Data != nil
}

// frameSettings must be applied again in each out-of-process frame.
func frameSettings(s *Spec) []setting {
	var out []setting
	if s.bypassesServiceWorkers() {
		out = append(out,
			setting{"Network.enable", object{"maxTotalBufferSize": 0, "maxResourceBufferSize": 0}},
			setting{"Network.setBypassServiceWorker", object{"bypass": true}})
	}
	if s.Locale != "" && s.Locale != defaultLocale {
		out = append(out, setting{"Emulation.setLocaleOverride", object{"locale": s.Locale}})
	}
	var media []object
	for _, feature := range [][2]string{{"prefers-reduced-motion", s.ReducedMotion}, {"forced-colors", s.ForcedColors}} {
		if feature[1] != "" {
			media = append(media, object{"name": feature[0], "value": feature[1]})
		}
	}
	if len(media) > 0 {
		out = append(out, setting{"Emulation.setEmulatedMedia", object{"features": media}})
	}
	if len(s.ExtraHTTPHeaders) > 0 {
		out = append(out,
			setting{"Network.enable", object{"maxTotalBufferSize": 0, "maxResourceBufferSize": 0}},
			setting{"Network.setExtraHTTPHeaders", object{"headers": s.ExtraHTTPHeaders}})
	}
	return out
}
