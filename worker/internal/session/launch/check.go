package launch

import (
	"slices"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
)

// checkRequest validates a request before the cloud is asked. It returns the build
// for a spec; the version of a profile is not known yet.
func (s *Service) checkRequest(request Request, host func() hostSnapshot) (builds.Build, error) {
	details := slices.Concat(request.Override.check("browser."), s.checkAds(request.Override.Network, "browser.network."), request.State.Check(stateField), request.checkEngine(),
		s.checkExtensions(request.Extensions), s.checkKeepFiles(request), s.checkRecord(NewRecord(request.Override.Record), recordField, ""),
		request.Override.limits().check(s.LimitRules.Highest, "browser.", ""))
	if len(details) > 0 {
		return builds.Build{}, fault.Invalid(details...)
	}
	if request.Spec == nil {
		return builds.Build{}, nil
	}
	build, err := s.chooseBuild(*request.Spec, host(), s.needs(request, Profile{}))
	if err == nil {
		err = request.checkBuild(build)
	}
	return build, err
}

// checkKeepFiles refuses keepFiles on a worker that keeps none.
func (s *Service) checkKeepFiles(request Request) []fault.Detail {
	if !request.KeepFiles || s.KeepsFiles {
		return nil
	}
	return []fault.Detail{{
		Field: "browser.keepFiles", Code: fault.Custom, Message: "must be false: this worker does not keep files (FILES_RETENTION is 0)", Received: true,
	}}
}
