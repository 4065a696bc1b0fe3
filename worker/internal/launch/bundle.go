package launch

import (
	"strings"

	"github.com/browser-svc/svc/shared/fault"
)

// String lists what is set, by the names of the API.
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

// checkCriteria refuses a spec that no bundle fits.
func (s *Service) checkCriteria(criteria Criteria, browserVersion int) error {
	if criteria == (Criteria{}) || s.Preset == nil {
		return nil
	}
	if _, ok := s.Preset(criteria, browserVersion); !ok {
		return fault.Field("spec", "no bundle of this worker has "+criteria.String())
	}
	return nil
}

// settings are what a launch goes by: what it sets itself, then the profile,
// then the bundle that fits the profile's criteria.
func (s *Service) settings(request Request, profile Profile) Settings {
	base := profile.Settings.sparse()
	if profile.Criteria != (Criteria{}) && s.Preset != nil {
		if bundle, ok := s.Preset(profile.Criteria, profile.BrowserVersion); ok {
			base = base.over(bundle)
		}
	}
	settings := request.Override.over(base)
	if request.Direct {
		settings.Proxy = nil
	}
	return settings
}

// sparse takes empty lists as not set: a profile always has its lists.
func (s Settings) sparse() Settings {
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
