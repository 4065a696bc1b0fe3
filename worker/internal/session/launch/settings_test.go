package launch_test

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/browser-svc/svc/shared/certs"
	"github.com/browser-svc/svc/shared/certs/certtest"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// TestSettings_LaunchOverridesProfile checks the precedence: proxyOverride, then
// browser, then the profile (DESIGN 7).
func TestSettings_LaunchOverridesProfile(t *testing.T) {
	ofProfile, ofLaunch := certtest.NewAuthority(t, "profile"), certtest.NewAuthority(t, "launch")
	emulation := settings.Emulation{
		UserAgent: "profile", Locale: "de-DE", TimezoneID: "Europe/Berlin", ColorScheme: "dark",
		Viewport: &settings.Size{Width: 1, Height: 2}, Screen: &settings.Size{Width: 3, Height: 4}, DeviceScaleFactor: 2,
		IsMobile: new(true), HasTouch: new(true),
	}
	options := settings.Options{
		Geolocation: &settings.Geolocation{Latitude: 1}, Permissions: []string{"camera"}, ExtraHTTPHeaders: map[string]string{"X-A": "1"},
		IgnoreHTTPSErrors: new(true), Args: []string{"--profile"}, StartURLs: []string{"http://profile/"},
	}
	profile := launch.Settings{Settings: settings.Settings{
		Emulation: emulation, Options: options,
		Proxy: &settings.Proxy{Server: "http://profile:1", Bypass: "a"}, CACertificates: []string{ofProfile.PEM()},
	}}
	fromProfile := browser.Spec{
		Emulation: emulation, Options: options, ProxyServer: "http://127.0.0.1:9", CACertificates: []*x509.Certificate{ofProfile.Certificate},
	}
	noTabs := launch.Settings{Settings: settings.Settings{Options: settings.Options{StartURLs: []string{}}}}
	for _, tc := range []struct {
		name    string
		request launch.Request
		proxies []string
		want    func(*browser.Spec)
	}{
		{"no override", launch.Request{}, []string{"http://profile:1 a"}, func(*browser.Spec) {}},
		{"everything overridden", launch.Request{Headless: true, Timeout: time.Second, Override: launch.Settings{
			Settings: settings.Settings{
				Emulation: settings.Emulation{
					UserAgent: "own", Locale: "fr-FR", TimezoneID: "Asia/Tokyo", ColorScheme: "light",
					Viewport: &settings.Size{Width: 5, Height: 6}, Screen: &settings.Size{Width: 7, Height: 8}, DeviceScaleFactor: 1,
				},
				Options: settings.Options{
					Geolocation: &settings.Geolocation{Latitude: 2}, Permissions: []string{}, Args: []string{}, StartURLs: []string{"http://own/"},
				},
				Proxy: &settings.Proxy{Server: "http://own:1"}, CACertificates: []string{ofLaunch.PEM()},
			},
		}}, []string{"http://own:1 "}, func(s *browser.Spec) {
			s.UserAgent, s.Locale, s.TimezoneID, s.ColorScheme = "own", "fr-FR", "Asia/Tokyo", "light"
			s.Viewport, s.Screen, s.DeviceScaleFactor = &settings.Size{Width: 5, Height: 6}, &settings.Size{Width: 7, Height: 8}, 1
			s.Geolocation, s.Permissions, s.Args, s.StartURLs = &settings.Geolocation{Latitude: 2}, []string{}, []string{}, []string{"http://own/"}
			s.CACertificates, s.Headless, s.Timeout = []*x509.Certificate{ofLaunch.Certificate}, true, time.Second
		}},
		{"no authority", launch.Request{Override: launch.Settings{Settings: settings.Settings{CACertificates: []string{}}}}, []string{"http://profile:1 a"},
			func(s *browser.Spec) { s.CACertificates = nil }},
		{"no proxy", launch.Request{Direct: true}, nil, func(*browser.Spec) {}},
		{"no tab", launch.Request{Headless: true, Override: noTabs}, []string{"http://profile:1 a"},
			func(s *browser.Spec) { s.StartURLs, s.Headless = []string{}, true }},
		{"a window", launch.Request{Override: noTabs}, []string{"http://profile:1 a"},
			func(s *browser.Spec) { s.StartURLs = nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			launcher := &recordingLauncher{}
			r := newFixture(t, func(o *launch.Options) { o.Launcher, o.AutoEngine = launcher, false })
			r.cloud.profile.Settings = profile
			tc.request.ProfileID = byProfile().ProfileID
			_, err := r.Launch(t.Context(), tc.request)
			assertKind(t, err, fault.Internal)
			want := fromProfile
			want.LaunchID, want.Build = launcher.spec.LaunchID, r.build
			tc.want(&want)
			if diff := cmp.Diff(want, launcher.spec, cmpopts.IgnoreFields(browser.Spec{}, "OnProxyListener", "OpenContextProxy", "CountDenied")); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.proxies, r.upstreams); diff != "" || r.opened != 1 || r.closed != 1 {
				t.Errorf("got %d egresses opened, %d closed; upstream proxies (-want +got):\n%s", r.opened, r.closed, diff)
			}
		})
	}
}

func TestProxy_ForwarderHidesCredentials(t *testing.T) {
	launcher := &recordingLauncher{}
	r := newFixture(t, func(o *launch.Options) { o.Launcher = launcher })
	request := byProfile()
	request.Override.Proxy = &settings.Proxy{Server: "http://proxy.example:3128", Bypass: "localhost", Username: "robot", Password: "secret"}
	_, err := r.Launch(t.Context(), request)
	assertKind(t, err, fault.Internal)
	if launcher.spec.ProxyServer != "http://127.0.0.1:9" {
		t.Errorf("the browser's proxy is %q", launcher.spec.ProxyServer)
	}
	if len(r.upstreams) != 1 || r.upstreams[0] != "http://proxy.example:3128 localhost" || r.closed != 1 {
		t.Errorf("got upstream proxies %v, closed %d times after the failed launch", r.upstreams, r.closed)
	}
}

func TestEgress_IsRestrictedToBrowserAndClosedWithIt(t *testing.T) {
	for name, upstream := range map[string]*settings.Proxy{"a proxy": {Server: "http://proxy.example:3128", Username: "robot"}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			request := byProfile()
			request.Override.Proxy = upstream
			s := r.launch(t, request)
			if r.opened != 1 || r.closed != 0 {
				t.Errorf("opened %d times, closed %d times while the browser runs", r.opened, r.closed)
			}
			running, _ := r.Browser(s.LaunchID)
			if len(r.restrictedTo) != 1 || r.restrictedTo[0] != running.UID() {
				t.Errorf("restricted to users %v, want the browser's user %d", r.restrictedTo, running.UID())
			}
			if _, err := r.Kill(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
			if r.closed != 1 {
				t.Errorf("closed %d times", r.closed)
			}
		})
	}
}

func TestProxy_RefusesUnusableProxy(t *testing.T) {
	r := newFixture(t)
	request := byProfile()
	request.Override.Proxy = &settings.Proxy{Server: "http://proxy.example:99999", Username: "ro:bot"}
	_, err := r.Launch(t.Context(), request)
	assertKind(t, err, fault.Validation)
	var fields []string
	for _, detail := range fault.From(err).Details {
		fields = append(fields, detail.Field)
	}
	if diff := cmp.Diff([]string{"proxyOverride.server", "proxyOverride.username"}, fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if len(r.cloud.requests) > 0 {
		t.Error("the cloud got a request before the check")
	}
	r.cloud.profile.Settings.Proxy = &settings.Proxy{Server: "socks5://proxy.example:1080", Password: "secret"}
	_, err = r.Launch(t.Context(), byProfile())
	assertKind(t, err, fault.Validation)
	if len(r.cloud.ends()) != 1 {
		t.Error("the slot of a profile with an invalid proxy was not released")
	}
}

// TestSettings_ClientCertificates: those of a launch replace those of the profile. The browser trusts the authority of
// its egress.
func TestSettings_ClientCertificates(t *testing.T) {
	clients, issuer := certtest.NewAuthority(t, "Clients"), certtest.NewAuthority(t, "Egress")
	input := func(origin string) certs.ClientInput {
		client := clients.Issue(t, "robot", time.Now().Add(time.Hour))
		raw, err := x509.MarshalPKCS8PrivateKey(client.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
		return certs.ClientInput{Origin: origin, Cert: certtest.PEM(client.Leaf), Key: string(key)}
	}
	damaged := input("https://profile.example")
	damaged.Key = damaged.Cert
	for name, tc := range map[string]struct {
		profile, launch []certs.ClientInput
		presented       []string
		field           string // of the error
	}{
		"of the profile":         {[]certs.ClientInput{input("https://profile.example")}, nil, []string{"profile.example:443"}, ""},
		"of the launch":          {[]certs.ClientInput{input("https://profile.example")}, []certs.ClientInput{input("https://Launch.example:8443")}, []string{"launch.example:8443"}, ""},
		"none":                   {[]certs.ClientInput{input("https://profile.example")}, []certs.ClientInput{}, nil, ""},
		"damaged in the profile": {[]certs.ClientInput{damaged}, nil, nil, "profile.clientCertificates[0].key"},
		"damaged in the launch":  {nil, []certs.ClientInput{damaged}, nil, "browser.clientCertificates[0].key"},
	} {
		t.Run(name, func(t *testing.T) {
			launcher := &recordingLauncher{}
			r := newFixture(t, func(o *launch.Options) { o.Launcher = launcher })
			r.authority = issuer.Certificate
			r.cloud.profile.Settings.ClientCertificates = tc.profile
			request := byProfile()
			request.Override.ClientCertificates = tc.launch
			_, err := r.Launch(t.Context(), request)
			if tc.field != "" {
				if details := assertKind(t, err, fault.Validation).Details; len(details) != 1 || details[0].Field != tc.field {
					t.Errorf("got %+v, want an error of %s", details, tc.field)
				}
				return
			}
			assertKind(t, err, fault.Internal) // the launcher starts no browser
			if diff := cmp.Diff(tc.presented, r.presented); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
			if trusted := slices.ContainsFunc(launcher.spec.CACertificates, issuer.Equal); trusted != (tc.presented != nil) || r.opened != r.closed {
				t.Errorf("the browser trusts the authority of its egress: %t; %d egresses opened, %d closed", trusted, r.opened, r.closed)
			}
		})
	}
}
