package launch_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

func withRules(rules *netrules.Rules) launch.Settings {
	return launch.Settings{Settings: settings.Settings{Network: rules}}
}

func allowing(patterns ...string) *netrules.Rules {
	return &netrules.Rules{Navigate: &netrules.Filter{Allow: patterns}}
}

func TestRules_LaunchNarrowsProfile(t *testing.T) {
	launcher := &recordingLauncher{}
	r := newFixture(t, func(o *launch.Options) { o.Launcher = launcher })
	r.cloud.profile.Settings = withRules(allowing("*.example.com"))
	request := byProfile()
	request.Override = withRules(allowing("*", "file:"))
	_, err := r.Launch(t.Context(), request)
	assertKind(t, err, fault.Internal)
	for address, want := range map[string]netrules.Verdict{
		"https://www.example.com/": {Level: "profile", Rule: "navigate.allow: *.example.com"},
		"https://evil.test/":       {Denied: true, Level: "profile", Rule: "navigate.allow"},
		"file:///etc/passwd":       {Denied: true, Level: "profile", Rule: "navigate.allow"},
		"data:text/html,x":         {Denied: true, Level: "profile", Rule: "navigate.allow"},
	} {
		if v := launcher.spec.Rules.Navigate(address); v != want {
			t.Errorf("%s: %+v", address, v)
		}
	}
	if len(r.rules) != 1 || r.rules[0] != launcher.spec.Rules {
		t.Errorf("the egress has %d rules, and not those of the browser", len(r.rules))
	}
}

func TestRules_LaunchNarrowsOrganization(t *testing.T) {
	denied := netrules.Verdict{Denied: true, Level: "organization", Rule: "navigate.deny: evil.test"}
	for name, request := range map[string]launch.Request{"profile": byProfile(), "spec": {Headless: true, Spec: &launch.Spec{}}} {
		launcher := &recordingLauncher{}
		r := newFixture(t, func(o *launch.Options) { o.Launcher = launcher })
		r.cloud.profile.OrganizationNetwork = &netrules.Rules{Navigate: &netrules.Filter{Deny: []string{"evil.test"}}}
		r.cloud.profile.Settings = withRules(allowing("*"))
		request.Override = withRules(allowing("evil.test", "example.com"))
		_, err := r.Launch(t.Context(), request)
		assertKind(t, err, fault.Internal)
		for address, want := range map[string]netrules.Verdict{
			"https://example.com/": {Level: name, Rule: "navigate.allow: *"}, "https://evil.test/": denied, "https://other.test/": {Denied: true, Level: "launch", Rule: "navigate.allow"},
		} {
			if v := launcher.spec.Rules.Navigate(address); v != want {
				t.Errorf("%s: %s: %+v, want %+v", name, address, v, want)
			}
		}
	}
}

func TestRules_OperatorNarrowsLaunch(t *testing.T) {
	launcher := &recordingLauncher{}
	r := newFixture(t, func(o *launch.Options) { o.Launcher = launcher })
	request := byProfile()
	request.OperatorNetwork, request.Override = allowing("*.example.com"), withRules(allowing("*"))
	_, err := r.Launch(t.Context(), request)
	assertKind(t, err, fault.Internal)
	if v := launcher.spec.Rules.Navigate("https://evil.test/"); v != (netrules.Verdict{Denied: true, Level: "operator", Rule: "navigate.allow"}) {
		t.Errorf("got %+v", v)
	}
}

func TestRules_NeedBlockListForAds(t *testing.T) {
	for name, blocks := range map[string]bool{"none": false, "a list": true} {
		launcher := &recordingLauncher{}
		r := newFixture(t, func(o *launch.Options) { o.Launcher, o.BlocksAds = launcher, blocks })
		r.cloud.profile.Settings = withRules(&netrules.Rules{Block: []string{"ads"}})
		_, err := r.Launch(t.Context(), byProfile())
		if blocks {
			assertKind(t, err, fault.Internal) // of the launcher
			continue
		}
		details := assertKind(t, err, fault.Validation).Details
		if len(details) != 1 || details[0].Field != "profile.network.block" || !strings.Contains(details[0].Message, "BLOCK_LIST") {
			t.Errorf("%s: %+v", name, details)
		}
	}
}

func TestRules_RefusesInvalidOnes(t *testing.T) {
	r := newFixture(t, func(o *launch.Options) { o.Launcher = &recordingLauncher{} })
	fields := func(profile, override launch.Settings) (fields []string) {
		r.cloud.profile.Settings = profile
		request := byProfile()
		request.Override = override
		_, err := r.Launch(t.Context(), request)
		for _, d := range assertKind(t, err, fault.Validation).Details {
			fields = append(fields, d.Field)
		}
		return fields
	}
	invalid := &netrules.Rules{Navigate: &netrules.Filter{Deny: []string{"ok.test", "a b"}}, Connect: &netrules.Filter{Allow: []string{"https://x/"}}, Block: []string{"ads"}}
	if diff := cmp.Diff([]string{"browser.network.navigate.deny[1]", "browser.network.connect.allow[0]", "browser.network.block"}, fields(launch.Settings{}, withRules(invalid))); diff != "" {
		t.Errorf("launch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"profile.network.navigate.allow[0]"}, fields(withRules(allowing("ftp://x")), launch.Settings{})); diff != "" {
		t.Errorf("profile (-want +got):\n%s", diff)
	}
	started := withRules(allowing("*.example.com"))
	started.StartURLs = []string{"https://example.com/", "https://evil.test/"}
	if diff := cmp.Diff([]string{"browser.startUrls[1]"}, fields(launch.Settings{}, started)); diff != "" {
		t.Errorf("start URLs (-want +got):\n%s", diff)
	}
}
