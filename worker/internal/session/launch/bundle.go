package launch

import (
	"cmp"
	"fmt"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/bundle"
)

// noBundles is a machine without bundles.
type noBundles struct{}

func (noBundles) Match(bundle.Criteria) (bundle.Bundle, bool) { return bundle.Bundle{}, false }
func (noBundles) ByFilename(string) (bundle.Bundle, bool)     { return bundle.Bundle{}, false }
func (noBundles) Filenames() []string                         { return []string{} }

// chooseBuild returns the build for a spec: the requested browser version, or else
// the newest version that has a bundle for the spec's criteria. Errors:
// NotInstalled, Validation.
func (s *Service) chooseBuild(spec Spec, host hostSnapshot, needs builds.Needs) (builds.Build, error) {
	major := spec.BrowserVersion
	if spec.Filename != "" {
		named, ok := s.Bundles.ByFilename(spec.Filename)
		if !ok {
			return builds.Build{}, unknownBundle(spec.Filename, s.Bundles.Filenames())
		}
		criteria := spec.Criteria
		criteria.BrowserVersion = major
		if misfits := criteria.Mismatches(named); len(misfits) > 0 {
			return builds.Build{}, criteriaConflict(named, misfits)
		}
		major = cmp.Or(major, named.BrowserVersion)
	}
	build, err := host.findBuild(major, needs)
	if err != nil || spec.Filename == "" && !spec.Criteria.NameIdentity() {
		return build, err
	}
	if _, ok := s.findBundle(spec.Filename, spec.Criteria, build.Major); ok {
		return build, nil
	}
	for _, older := range host.builds {
		if _, ok := s.findBundle(spec.Filename, spec.Criteria, older.Major); ok && major == 0 {
			if build, err := host.findBuild(older.Major, needs); err == nil {
				return build, nil
			}
		}
	}
	return builds.Build{}, fault.Field("spec", "no bundle of this worker matches "+spec.Criteria.String())
}

// findBundle returns the named bundle, or without a name the best one, if it matches the
// criteria and the browser version.
func (s *Service) findBundle(filename string, criteria bundle.Criteria, version int) (bundle.Bundle, bool) {
	criteria.BrowserVersion = version
	if filename == "" {
		return s.Bundles.Match(criteria)
	}
	named, ok := s.Bundles.ByFilename(filename)
	return named, ok && len(criteria.Mismatches(named)) == 0
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
func criteriaConflict(named bundle.Bundle, misfits []bundle.Mismatch) error {
	var details []fault.Detail
	for _, misfit := range misfits {
		message := fmt.Sprintf("conflicts with spec.filename: %s has %s %s", named.Filename, misfit.Criterion, misfit.Has)
		if misfit.Has == "" {
			message = fmt.Sprintf("conflicts with spec.filename: %s has no %s", named.Filename, misfit.Criterion)
		}
		details = append(details, fault.Detail{Field: "spec." + misfit.Criterion, Code: fault.Custom, Message: message})
	}
	return fault.Invalid(details...)
}
