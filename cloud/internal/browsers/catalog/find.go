package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/browser-svc/svc/shared/fault"
)

// The default platform if several exist and none is named.
const (
	defaultOS   = "linux"
	defaultArch = "x86_64"
)

// Find returns the release of a build, or NotFound. An empty OS or Arch matches every
// value. If several releases match, linux is preferred for an empty OS and x86_64 for
// an empty Arch; if none of these exists, Find returns a Validation error that lists
// the possible values of os and arch.
func (s *Service) Find(ctx context.Context, b Build) (Release, error) {
	var found []Release
	err := s.DB.SelectContext(ctx, &found, `
		SELECT `+columns+` FROM chromium_releases
		WHERE version = $1 AND ($2 = '' OR os = $2) AND ($3 = '' OR arch = $3) ORDER BY os, arch`, b.Version, b.OS, b.Arch)
	if err != nil {
		return Release{}, fmt.Errorf("find release %s: %w", b, err)
	}
	switch len(found) {
	case 0:
		return Release{}, fault.Missing("browser build")
	case 1:
		return found[0], nil
	}
	for _, r := range found {
		if (b.OS != "" || r.OS == defaultOS) && (b.Arch != "" || r.Arch == defaultArch) {
			return r, nil
		}
	}
	return Release{}, errAmbiguous(b, found)
}

// errAmbiguous returns the fault that asks for the missing fields.
func errAmbiguous(b Build, found []Release) error {
	var details []fault.Detail
	for _, field := range []struct {
		name, value string
		read        func(Release) string
	}{
		{"os", b.OS, func(r Release) string { return r.OS }},
		{"arch", b.Arch, func(r Release) string { return r.Arch }},
	} {
		var values []string
		for _, r := range found {
			values = append(values, field.read(r))
		}
		slices.Sort(values)
		if values = slices.Compact(values); field.value != "" || len(values) == 1 {
			continue
		}
		details = append(details, fault.Detail{
			Field: field.name, Code: fault.Required, Message: "is required: builds exist for " + strings.Join(values, " and "),
			Constraint: map[string]any{"allowed": values},
		})
	}
	return fault.Invalid(details...)
}
