package profile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/shared/settings"
)

func TestCheck_ReportsAllErrors(t *testing.T) {
	f := Fields{OS: new("linux"), Settings: settings.Settings{
		Identity: settings.Identity{WindowsVersion: "11"},
		Emulation: settings.Emulation{
			TimezoneID: "Mars/Base", Viewport: &settings.Size{Width: 800, Height: 601}, Screen: &settings.Size{Width: 800, Height: 600},
		},
		Options: settings.Options{Args: []string{"--mute-audio", "--no-sandbox", "--remote-debugging-port=1"},
			StartURLs: []string{"https://example.com", "http://", "about:version"},
			ExtraHTTPHeaders: map[string]string{"X-Fine": "1", "x y": "1", "Host": "1", "content-length": "1", "Connection": "1",
				"X-Twice": "1", "x-twice": "1", "": "1"}},
		CACertificates: []string{authority, "text", ""}, Proxy: &settings.Proxy{Server: "http://proxy:99999"},
	}}
	want := []string{"windowsVersion", "timezoneId", "viewport", "args[1]", "args[2]", "startUrls[1]", "startUrls[2]", "caCertificates[1]", "caCertificates[2]",
		"extraHTTPHeaders.", "extraHTTPHeaders.Connection", "extraHTTPHeaders.Host", "extraHTTPHeaders.content-length",
		"extraHTTPHeaders.x y", "extraHTTPHeaders.x-twice", "proxy.server"}
	for _, prefix := range []string{"", "spec."} {
		var got []string
		for _, d := range wantFault(t, f.check(prefix), fault.Validation).Details {
			got = append(got, d.Field)
			if d.Code != fault.Custom || d.Message == "" {
				t.Errorf("detail %+v", d)
			}
		}
		var prefixed []string
		for _, field := range want {
			prefixed = append(prefixed, prefix+field)
		}
		if diff := cmp.Diff(prefixed, got); diff != "" {
			t.Errorf("fields (-want +got):\n%s", diff)
		}
	}
}

func TestCheck_AcceptsValidFields(t *testing.T) {
	d := full()
	if err := d.check(""); err != nil {
		t.Error(err)
	}
	for _, zone := range []string{"UTC", "Asia/Tokyo", "America/Argentina/Buenos_Aires", "Etc/GMT+5"} {
		f := Fields{Settings: settings.Settings{Emulation: settings.Emulation{TimezoneID: zone}}}
		if err := f.check(""); err != nil {
			t.Errorf("%s: %v", zone, err)
		}
	}
	for _, zone := range []string{"Local", "Europe", "berlin", "../etc/passwd"} {
		f := Fields{Settings: settings.Settings{Emulation: settings.Emulation{TimezoneID: zone}}}
		if err := f.check(""); err == nil {
			t.Errorf("%q was accepted", zone)
		}
	}
	for _, server := range []string{"http://a", "socks5://a:1080", "https://[::1]:8080", "http://10.0.0.1:80"} {
		f := Fields{Settings: settings.Settings{Proxy: &settings.Proxy{Server: server}}}
		if err := f.check(""); err != nil {
			t.Errorf("%s: %v", server, err)
		}
	}
	for _, server := range []string{"http://:80", "http://a:", "http://a:0", "http://a:b", "http://[::1"} {
		f := Fields{Settings: settings.Settings{Proxy: &settings.Proxy{Server: server}}}
		if err := f.check(""); err == nil {
			t.Errorf("%q was accepted", server)
		}
	}
}

func TestCheck_RefusesAndTruncatesLongHeaderName(t *testing.T) {
	f := Fields{Settings: settings.Settings{Options: settings.Options{ExtraHTTPHeaders: map[string]string{strings.Repeat("a", maxHeaderName): "1"}}}}
	if err := f.check(""); err != nil {
		t.Error(err)
	}
	f.ExtraHTTPHeaders = map[string]string{strings.Repeat("ü", 5000): "1"}
	details := wantFault(t, f.check(""), fault.Validation).Details
	if want := "extraHTTPHeaders." + strings.Repeat("ü", maxHeaderName/2); details[0].Field != want {
		t.Errorf("field %q; want %q", details[0].Field, want)
	}
}

func TestCreate_RefusesInvalidDraft(t *testing.T) {
	f := newFixture(t)
	d := named("Wrong")
	d.Args = []string{"--proxy-server=http://a"}
	_, err := f.svc.Create(t.Context(), f.org, f.user, d)
	wantFault(t, err, fault.Validation)
	if f.rows(f.org) != 0 {
		t.Error("the invalid profile was created")
	}
}

func TestCheck_ReportsInvalidNetworkRules(t *testing.T) {
	f := Fields{Settings: settings.Settings{Network: &netrules.Rules{Navigate: &netrules.Filter{Allow: []string{"*.example.com", "a b"}}}}}
	details := wantFault(t, f.check("spec."), fault.Validation).Details
	if len(details) != 1 || details[0].Field != "spec.network.navigate.allow[1]" {
		t.Errorf("details: %+v", details)
	}
}
