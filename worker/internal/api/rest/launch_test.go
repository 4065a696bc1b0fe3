package rest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/certs"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/browser/bundle"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

const profile = "019a5f3e-8d20-7f66-b0a5-1c4e7f9a0b04"

func TestLaunchProfile_ConvertsBody(t *testing.T) {
	id := uuid.MustParse(profile)
	version, locale := sharedapi.BrowserVersion(156), "fr-FR"
	plain := launch.Request{ProfileID: &id, Headless: true, Timeout: 30 * time.Second}
	for _, tc := range []struct {
		name, body string
		want       func() launch.Request
	}{
		{"a profile", `{"profileId":"` + profile + `"}`, func() launch.Request { return plain }},
		{"a spec", `{"spec":{"browserVersion":156,"locale":"fr-FR"}}`, func() launch.Request {
			r := plain
			r.ProfileID, r.Spec = nil, &launch.Spec{BrowserVersion: 156, Body: &sharedapi.LaunchSpec{BrowserVersion: &version, Locale: &locale}}
			return r
		}},
		{"a spec with criteria", `{"spec":{"os":"android","model":"Pixel 9"}}`, func() launch.Request {
			r := plain
			system, model := sharedapi.OperatingSystem("android"), "Pixel 9"
			r.ProfileID, r.Spec = nil, &launch.Spec{Criteria: bundle.Criteria{OS: "android", Model: "Pixel 9"}, Body: &sharedapi.LaunchSpec{Os: &system, Model: &model}}
			return r
		}},
		{"a spec with every criterion", `{"spec":{"filename":"pixel-9.json","browserVersion":156,"os":"android","osVersion":"14","windowsVersion":"11","osArch":"arm",
			"renderer":"R","model":"M","gpuName":"G"}}`, func() launch.Request {
			r := plain
			system, release, arch := sharedapi.OperatingSystem("android"), sharedapi.WindowsVersion("11"), sharedapi.OsArch("arm")
			r.ProfileID, r.Spec = nil, &launch.Spec{
				BrowserVersion: 156, Filename: "pixel-9.json",
				Criteria: bundle.Criteria{
					OS: "android", OSVersion: "14", WindowsVersion: "11", OSArch: "arm", Renderer: "R", Model: "M", GPUName: "G",
				},
				Body: &sharedapi.LaunchSpec{
					Filename: new("pixel-9.json"), BrowserVersion: &version, Os: &system, OsVersion: new("14"), WindowsVersion: &release, OsArch: &arch,
					Renderer: new("R"), Model: new("M"), GpuName: new("G"),
				},
			}
			return r
		}},
		{"an empty spec", `{"spec":{}}`, func() launch.Request {
			r := plain
			r.ProfileID, r.Spec = nil, &launch.Spec{Body: &sharedapi.LaunchSpec{}}
			return r
		}},
		{"null for unset fields", `{"profileId":"` + profile + `","spec":null,"browser":{"args":null,"timeoutMs":null}}`, func() launch.Request { return plain }},
		{"no browser settings", `{"profileId":"` + profile + `","browser":null}`, func() launch.Request { return plain }},
		{"no proxy", `{"profileId":"` + profile + `","proxyOverride":null}`, func() launch.Request {
			r := plain
			r.Direct = true
			return r
		}},
		{"another proxy", `{"profileId":"` + profile + `","proxyOverride":{"server":"http://proxy.example:3128","username":"robot","password":"p"}}`, func() launch.Request {
			r := plain
			r.Override.Proxy = &settings.Proxy{Server: "http://proxy.example:3128", Username: "robot", Password: "p"}
			return r
		}},
		{"every field overridden", `{"profileId":"` + profile + `","browser":{"headless":false,"args":["--lang=de"],"viewport":{"width":800,"height":600},
			"screen":{"width":1600,"height":1200},"deviceScaleFactor":2,"userAgent":"own","locale":"fr-FR","timezoneId":"Asia/Tokyo",
			"geolocation":{"latitude":1,"longitude":2},"colorScheme":"dark","permissions":["camera"],"startUrls":["https://example.com/"],
			"timeoutMs":5000,"maxDurationSeconds":60,"idleTimeoutSeconds":7,"connectTimeoutSeconds":0,"name":"Nightly","keepAlive":true,"caCertificates":["PEM"],"clientCertificates":[{"origin":"https://a.example","cert":"C","key":"K"},{"origin":"https://b.example","pfx":"AAAA","passphrase":"p"}],"metadata":{"a":"b"}}}`, func() launch.Request {
			return launch.Request{ProfileID: &id, Timeout: 5 * time.Second, Name: "Nightly", KeepAlive: true, Override: launch.Settings{
				Metadata: map[string]string{"a": "b"},
				ClientCertificates: []certs.ClientInput{
					{Origin: "https://a.example", Cert: "C", Key: "K"}, {Origin: "https://b.example", PFX: "AAAA", Passphrase: "p"},
				},
				ConnectTimeoutSeconds: new(int32(0)),
				Settings: settings.Settings{
					IdleTimeoutSeconds: new(int32(7)), MaxDurationSeconds: new(int32(60)), CACertificates: []string{"PEM"},
					Emulation: settings.Emulation{
						Viewport: &settings.Size{Width: 800, Height: 600}, Screen: &settings.Size{Width: 1600, Height: 1200}, DeviceScaleFactor: 2,
						UserAgent: "own", Locale: "fr-FR", TimezoneID: "Asia/Tokyo", ColorScheme: "dark",
					},
					Options: settings.Options{
						Args: []string{"--lang=de"}, Geolocation: &settings.Geolocation{Latitude: 1, Longitude: 2}, Permissions: []string{"camera"},
						StartURLs: []string{"https://example.com/"},
					},
				},
			}}
		}},
		{"empty lists", `{"profileId":"` + profile + `","browser":{"args":[],"permissions":[],"startUrls":[],"clientCertificates":[]}}`, func() launch.Request {
			r := plain
			r.Override = launch.Settings{ClientCertificates: []certs.ClientInput{}, Settings: settings.Settings{Options: settings.Options{Args: []string{}, Permissions: []string{}, StartURLs: []string{}}}}
			return r
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newTestServer(t, "http://localhost:3000")
			if answer := r.call(t.Context(), t, "POST", "/sessions/profile", tc.body, nil); answer.StatusCode != 201 {
				t.Fatalf("answered %d", answer.StatusCode)
			}
			if diff := cmp.Diff([]launch.Request{tc.want()}, r.requests); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLaunchProfile_RefusesInvalidBody(t *testing.T) {
	r := newTestServer(t, "http://localhost:3000")
	for _, tc := range []struct {
		name, body, field, code string
	}{
		{"both", `{"profileId":"` + profile + `","spec":{}}`, "profileId", fault.InvalidUnion},
		{"neither", `{}`, "profileId", fault.InvalidUnion},
		{"an unknown key", `{"profileId":"` + profile + `","profile":1}`, "profile", fault.UnrecognizedKey},
		{"an unknown setting", `{"profileId":"` + profile + `","browser":{"headles":true}}`, "browser.headles", fault.UnrecognizedKey},
		{"an unknown criterion", `{"spec":{"nonsense":true}}`, "spec.nonsense", fault.UnrecognizedKey},
		{"no uuid", `{"profileId":"abc"}`, "profileId", fault.InvalidFormat},
		{"no integer", `{"spec":{"browserVersion":"156"}}`, "spec.browserVersion", fault.InvalidType},
		{"a timeout that is too short", `{"profileId":"` + profile + `","browser":{"timeoutMs":1}}`, "browser.timeoutMs", fault.TooSmall},
		{"a duration that is too long", `{"profileId":"` + profile + `","browser":{"maxDurationSeconds":604801}}`, "browser.maxDurationSeconds", fault.TooBig},
		{"an unknown colour scheme", `{"profileId":"` + profile + `","browser":{"colorScheme":"blue"}}`, "browser.colorScheme", fault.InvalidEnumValue},
		{"a proxy without a server", `{"profileId":"` + profile + `","proxyOverride":{}}`, "proxyOverride.server", fault.Required},
		{"no page to open", `{"spec":{"startUrls":[]}}`, "spec.startUrls", fault.ArrayTooShort},
		{"no permission", `{"spec":{"permissions":[]}}`, "spec.permissions", fault.ArrayTooShort},
		{"an empty authority", `{"profileId":"` + profile + `","browser":{"caCertificates":["PEM",""]}}`, "browser.caCertificates[1]", fault.TooShort},
		{"a certificate without an origin", `{"profileId":"` + profile + `","browser":{"clientCertificates":[{"pfx":"AAAA"}]}}`, "browser.clientCertificates[0].origin", fault.Required},
		{"a file to open", `{"profileId":"` + profile + `","browser":{"startUrls":["file:///etc/passwd"]}}`, "browser.startUrls[0]", fault.InvalidPattern},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got failure
			answer := r.call(contracttest.AllowInvalidRequest(t.Context()), t, "POST", "/sessions/profile", tc.body, &got)
			if answer.StatusCode != 400 || got.Error.Code != "VALIDATION_ERROR" || len(got.Error.Details) != 1 ||
				got.Error.Details[0].Field != tc.field || got.Error.Details[0].Code != tc.code {
				t.Errorf("answered %d %+v, want %s on %s", answer.StatusCode, got.Error, tc.code, tc.field)
			}
		})
	}
	if len(r.requests) > 0 {
		t.Errorf("launched %v", r.requests)
	}
}

func TestLaunchProfile_FailureStatuses(t *testing.T) {
	r := newTestServer(t, "http://localhost:3000")
	limit := sharedapi.Limited(3)
	for _, tc := range []struct {
		err    error
		status int
		code   string
	}{
		{fault.New(fault.PaymentRequired, "no", fault.Detail{Field: "profileId", Code: fault.Custom, Message: "concurrency_limit",
			Constraint: map[string]any{"current": 3, "limit": &limit}}), 402, "AUTHORIZATION_ERROR"},
		{fault.New(fault.NotInstalled, "no", fault.Detail{Field: "browserVersion", Code: fault.ResourceNotFound, Message: "is not installed",
			Received: 91, Constraint: map[string]any{"availableVersions": []int{156}}}), 400, "RESOURCE_NOT_FOUND"},
		{fault.New(fault.NotFound, "no"), 404, "RESOURCE_NOT_FOUND"},
		{fault.New(fault.Conflict, "no"), 409, "RESOURCE_CONFLICT"},
		{fault.New(fault.OwnKeyRefused, "no"), 424, "AUTHENTICATION_ERROR"},
		{fault.New(fault.Unavailable, "no"), 503, "EXTERNAL_SERVICE_ERROR"},
		{fault.New(fault.Timeout, "no"), 504, "EXTERNAL_SERVICE_ERROR"},
		{fmt.Errorf("a path: /secret"), 500, "INTERNAL_ERROR"},
	} {
		r.err = tc.err
		var got failure
		answer := r.call(t.Context(), t, "POST", "/sessions/profile", `{"profileId":"`+profile+`"}`, &got)
		if answer.StatusCode != tc.status || got.Error.Code != tc.code {
			t.Errorf("%v: answered %d %s, want %d %s", tc.err, answer.StatusCode, got.Error.Code, tc.status, tc.code)
		}
		if strings.Contains(fmt.Sprint(got), "/secret") {
			t.Errorf("the error answer is %+v", got)
		}
	}
}
