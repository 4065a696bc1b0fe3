package launch

import (
	"cmp"
	"slices"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
)

// needs returns the capabilities that a launch needs of its build. The profile of a spec
// is not known before the authorization.
func (s *Service) needs(request Request, profile Profile) builds.Needs {
	needs := builds.Needs{Engine: request.Engine, Headful: !request.Headless, Extensions: len(request.Extensions) > 0}
	colorScheme := cmp.Or(request.Override.ColorScheme, profile.Settings.ColorScheme)
	needs.PreferShell = s.AutoEngine && needs == builds.Needs{} && !profile.Persist && colorScheme != "dark"
	return needs
}

// checkEngine returns the settings of a request that its engine does not support.
func (r Request) checkEngine() (details []fault.Detail) {
	if r.Engine != builds.HeadlessShell {
		return nil
	}
	refuse := func(field, message string) {
		details = append(details, fault.Detail{Field: field, Code: fault.Custom, Message: message})
	}
	if !r.Headless {
		refuse("browser.headless", "must be true: the engine headless-shell has no windows")
	}
	if len(r.Extensions) > 0 {
		refuse("browser.extensions", "must be empty: the engine headless-shell has no extensions")
	}
	if r.Override.ColorScheme == "dark" {
		refuse("browser.colorScheme", "must not be dark: the engine headless-shell does not support it")
	}
	return details
}

// checkSettings returns an error for merged settings that the build does not support.
func checkSettings(request Request, profile Profile, settings Settings, build builds.Build) error {
	var details []fault.Detail
	refuse := func(field, message string) {
		details = append(details, fault.Detail{Field: field, Code: fault.Custom, Message: message})
	}
	if len(request.Extensions) > 0 && slices.Contains(settings.Args, "--disable-extensions") {
		refuse("browser.extensions", "must be empty: the args of the launch or of the profile contain --disable-extensions")
	}
	if build.Engine == builds.HeadlessShell && settings.ColorScheme == "dark" {
		refuse("browser.colorScheme", "must not be dark, also in the profile: the engine headless-shell does not support it")
	}
	if request.Engine == builds.HeadlessShell && profile.Persist {
		refuse("browser.engine", "must be chromium: the profile keeps its data (persist), which another engine cannot read")
	}
	if len(details) > 0 {
		return fault.Invalid(details...)
	}
	return nil
}
