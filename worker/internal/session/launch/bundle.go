package launch

import (
	"fmt"
	"strings"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/session"
)

// String lists the criteria that are set, by their names in the API, except the
// filename.
func (c Criteria) String() string {
	var set []string
	for _, one := range []struct{ name, value string }{
		{"os", c.OS}, {"osVersion", c.OSVersion}, {"windowsVersion", c.WindowsVersion}, {"osArch", c.OSArch},
		{"model", c.Model}, {"renderer", c.Renderer}, {"gpuName", c.GPUName},
	} {
		if one.value != "" {
			set = append(set, one.name+" "+one.value)
		}
	}
	return strings.Join(set, ", ")
}

// noBundles is a machine without bundles.
type noBundles struct{}

func (noBundles) Match(Criteria, int) (Bundle, bool)                  { return Bundle{}, false }
func (noBundles) ByFilename(Criteria, int) (Bundle, []Mismatch, bool) { return Bundle{}, nil, false }
func (noBundles) Filenames() []string                                 { return []string{} }

// chooseBuild returns the build for a spec: the requested browser version, or else
// the newest version that has a bundle for the spec's criteria. Errors:
// NotInstalled, Validation.
func (s *Service) chooseBuild(spec Spec, host hostSnapshot, needs browser.Needs) (browser.Build, error) {
	major := spec.BrowserVersion
	if spec.Criteria.Filename != "" {
		bundle, misfits, ok := s.Bundles.ByFilename(spec.Criteria, major)
		switch {
		case !ok:
			return browser.Build{}, unknownBundle(spec.Criteria.Filename, s.Bundles.Filenames())
		case len(misfits) > 0:
			return browser.Build{}, criteriaConflict(bundle, misfits)
		case major == 0:
			major = bundle.BrowserVersion
		}
	}
	build, err := host.findBuild(major, needs)
	if err != nil || spec.Criteria == (Criteria{}) {
		return build, err
	}
	if _, ok := s.Bundles.Match(spec.Criteria, build.Major); ok {
		return build, nil
	}
	for _, older := range host.builds {
		if _, ok := s.Bundles.Match(spec.Criteria, older.Major); ok && major == 0 {
			if build, err := host.findBuild(older.Major, needs); err == nil {
				return build, nil
			}
		}
	}
	return browser.Build{}, fault.Field("spec", "no bundle of this worker matches "+spec.Criteria.String())
}

// maxFilenames is how many filenames an error lists.
const maxFilenames = 1000

func unknownBundle(filename string, known []string) error {
	return fault.Invalid(fault.Detail{
		Field: "spec.filename", Code: fault.InvalidEnumValue, Message: "is not a bundle of this worker; GET /profiles lists the bundles",
		Received: filename, Constraint: map[string]any{"allowed": known[:min(len(known), maxFilenames)]},
	})
}

// criteriaConflict returns an error with one detail for each criterion that the
// named bundle does not match.
func criteriaConflict(bundle Bundle, misfits []Mismatch) error {
	var details []fault.Detail
	for _, misfit := range misfits {
		message := fmt.Sprintf("conflicts with spec.filename: %s has %s %s", bundle.Filename, misfit.Criterion, misfit.Has)
		if misfit.Has == "" {
			message = fmt.Sprintf("conflicts with spec.filename: %s has no %s", bundle.Filename, misfit.Criterion)
		}
		details = append(details, fault.Detail{Field: "spec." + misfit.Criterion, Code: fault.Custom, Message: message})
	}
	return fault.Invalid(details...)
}

// settings merges the settings of a launch: the request overrides the profile, which
// overrides the matching bundle. The criteria come from the spec, because the cloud
// does not know this machine's bundles, or else from the profile.
func (s *Service) settings(request Request, profile Profile) (Settings, session.Bundle) {
	base, criteria := profile.Settings.withoutEmptyLists(), profile.Criteria
	if request.Spec != nil {
		criteria = request.Spec.Criteria
	}
	var chosen session.Bundle
	if criteria != (Criteria{}) {
		if bundle, ok := s.Bundles.Match(criteria, profile.BrowserVersion); ok {
			base, chosen = base.withDefaults(bundle.Settings), bundle.Bundle
		}
	}
	settings := request.Override.withDefaults(base)
	if request.Direct {
		settings.Proxy = nil
	}
	return settings, chosen
}

// withoutEmptyLists treats empty lists as not set: a profile from the cloud always
// has its lists.
func (s Settings) withoutEmptyLists() Settings {
	if len(s.Permissions) == 0 {
		s.Permissions = nil
	}
	if len(s.ExtraHTTPHeaders) == 0 {
		s.ExtraHTTPHeaders = nil
	}
	if len(s.Args) == 0 {
		s.Args = nil
	}
	if len(s.StartURLs) == 0 {
		s.StartURLs = nil
	}
	return s
}
