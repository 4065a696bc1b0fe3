package launch

import (
	"fmt"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser"
)

// Extensions are the extensions of this machine.
type Extensions interface {
	// Find returns an extension. Its Dir is not set. The problem, if any, is for the
	// client.
	Find(id string) (found browser.Extension, problem *fault.Detail)
	// Use returns an extension with its directory, which exists until release is called.
	// Errors: NotFound.
	Use(id string) (found browser.Extension, release func(), err error)
}

// noExtensions is a machine without extensions.
type noExtensions struct{}

func (noExtensions) Find(string) (browser.Extension, *fault.Detail) {
	return browser.Extension{}, &fault.Detail{Code: fault.ResourceNotFound, Message: "this worker has no extensions"}
}

func (noExtensions) Use(string) (browser.Extension, func(), error) {
	return browser.Extension{}, nil, fault.Missing("extension")
}

func extensionField(index int) string { return fmt.Sprintf("browser.extensions[%d]", index) }

// checkExtensions returns the problems of a launch's extensions.
func (s *Service) checkExtensions(ids []string) (details []fault.Detail) {
	first := map[string]int{} // by Chromium id
	for i, id := range ids {
		found, problem := s.Extensions.Find(id)
		if problem != nil {
			problem.Field, problem.Received = extensionField(i), id
			details = append(details, *problem)
			continue
		}
		if earlier, twice := first[found.ChromiumID]; twice {
			details = append(details, fault.Detail{
				Field: extensionField(i), Code: fault.Custom, Received: id,
				Message: "has the same Chromium id as " + extensionField(earlier) + ": a browser loads one of them",
			})
			continue
		}
		first[found.ChromiumID] = i
	}
	return details
}

// useExtensions adds the extensions to the spec. Their files exist until release is
// called. Errors: Validation, if one was deleted since the check.
func (s *Service) useExtensions(ids []string, spec *browser.Spec) (release func(), err error) {
	var releases []func()
	release = func() {
		for _, end := range releases {
			end()
		}
	}
	for i, id := range ids {
		found, end, err := s.Extensions.Use(id)
		if err != nil {
			release()
			return nil, fault.Wrap(err, fault.Validation, "The request is not valid.", fault.Detail{
				Field: extensionField(i), Code: fault.ResourceNotFound, Message: "was deleted", Received: id,
			})
		}
		releases = append(releases, end)
		spec.Extensions = append(spec.Extensions, found)
	}
	return release, nil
}

// extensionRefused returns the client error for an extension that Chromium refuses.
func extensionRefused(refused *browser.ExtensionError) error {
	return fault.Wrap(refused, fault.Validation, "The request is not valid.", fault.Detail{
		Field: extensionField(refused.Index), Code: fault.Custom, Message: "cannot be loaded by the browser: " + refused.Reason,
	})
}
