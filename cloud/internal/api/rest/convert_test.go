package rest

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/cloud/internal/browsers/profile"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/certs"
)

// everySetting contains each setting of a spec under its API name.
const everySetting = `{"name":"N","filename":"pixel-9.json","browserVersion":156,"os":"windows","osVersion":"11","windowsVersion":"11","osArch":"x86",
	"model":"M","renderer":"R","gpuName":"G","userAgent":"UA","locale":"de-DE","timezoneId":"Europe/Berlin",
	"colorScheme":"dark","reducedMotion":"reduce","forcedColors":"active","viewport":{"width":800,"height":600},"screen":{"width":1920,"height":1080},
	"deviceScaleFactor":1.5,"isMobile":true,"hasTouch":true,"geolocation":{"latitude":1,"longitude":2,"accuracy":3},
	"permissions":["camera"],"extraHTTPHeaders":{"X-A":"1"},"ignoreHTTPSErrors":true,
	"proxy":{"server":"http://a:1","bypass":"b","username":"u","password":"secret"},"args":["--mute-audio"],
	"startUrls":["https://example.com/"],
	"network":{"navigate":{"allow":["*.example.com"],"deny":["https://a.example.com/x*"]},"connect":{"allow":[],"deny":["10.0.0.0/8"]},
		"methods":{"readOnly":true},"block":["image"],"uploads":"deny","downloads":"allow","maxBytes":1000,"maxRequestsPerMinute":60},
	"metadata":{"k":"v"}}`

func TestDraftFromSpec_CopiesAllFields(t *testing.T) {
	spec := parsed[sharedapi.LaunchSpec](t, everySetting)
	wantAllSet(t, spec)
	draft := must(draftFromSpec(spec))(t)
	want, got := parsed[map[string]any](t, everySetting), asJSON(t, draft.Fields)
	delete(want["proxy"].(map[string]any), "password")
	delete(want, "filename") // only in the worker's API
	for _, name := range []string{"notes", "tags", "persist"} {
		delete(got, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if draft.ProxyPassword == nil || *draft.ProxyPassword != "secret" {
		t.Errorf("the password is %v", draft.ProxyPassword)
	}
}

func TestConfigFromProfile_CopiesAllFields(t *testing.T) {
	draft := must(draftFromSpec(parsed[sharedapi.LaunchSpec](t, everySetting)))(t)
	draft.Record, draft.IdleTimeoutSeconds, draft.MaxDurationSeconds = []string{"video", "frames"}, new(int32(60)), new(int32(0)) // not part of a spec
	draft.CACertificates = []string{"PEM"}
	config := must(configFromProfile(profile.Config{
		Profile: profile.Profile{Fields: draft.Fields, Version: 7, Ephemeral: true}, ProxyPassword: draft.ProxyPassword,
		ClientKeys:          []certs.Client{{Origin: "https://a.example", Cert: "C", Key: "K"}},
		OrganizationNetwork: draft.Network}))(t)
	want, got := parsed[map[string]any](t, everySetting), asJSON(t, config)
	delete(want, "filename") // only in the worker's API
	want["version"], want["ephemeral"], want["persist"], want["record"] = 7.0, true, false, []any{"video", "frames"}
	want["idleTimeoutSeconds"], want["maxDurationSeconds"] = 60.0, 0.0
	want["caCertificates"], want["organizationNetwork"] = []any{"PEM"}, want["network"]
	want["clientCertificates"] = []any{map[string]any{"origin": "https://a.example", "cert": "C", "key": "K"}}
	want["profileId"] = "00000000-0000-0000-0000-000000000000"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProfileToAPI_ShowsCertificatesWithoutKeys(t *testing.T) {
	expires := time.Date(2027, 11, 21, 10, 15, 0, 0, time.UTC)
	body := asJSON(t, must(profileToAPI(profile.Profile{ClientCertificates: []profile.ClientCertificate{{Origin: "https://a.example", Subject: "CN=robot", ExpiresAt: expires}}}))(t))
	want := []any{map[string]any{"origin": "https://a.example", "subject": "CN=robot", "expiresAt": "2027-11-21T10:15:00Z"}}
	if diff := cmp.Diff(want, body["clientCertificates"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConvert_ListsAndMapsAreNeverNull(t *testing.T) {
	for name, body := range map[string]map[string]any{
		"profile": asJSON(t, must(profileToAPI(profile.Profile{}))(t)),
		"config":  asJSON(t, must(configFromProfile(profile.Config{}))(t)),
	} {
		for _, field := range []string{"permissions", "args", "startUrls", "record", "caCertificates", "clientCertificates"} {
			if !cmp.Equal(body[field], []any{}) {
				t.Errorf("%s: %s is %v", name, field, body[field])
			}
		}
		for _, field := range []string{"extraHTTPHeaders", "metadata"} {
			if !cmp.Equal(body[field], map[string]any{}) {
				t.Errorf("%s: %s is %v", name, field, body[field])
			}
		}
	}
	if tags := asJSON(t, must(profileToAPI(profile.Profile{}))(t))["tags"]; !cmp.Equal(tags, []any{}) {
		t.Errorf("tags is %v", tags)
	}
}

func TestDraftFromCreate_CopiesAllFields(t *testing.T) {
	request := parsed[cloudapi.CreateProfileRequest](t, everySetting)
	request.Notes, request.Tags, request.Persist = new("Notes"), &[]string{"a"}, new(true)
	request.Record = &sharedapi.RecordedParts{"video", "events"}
	request.IdleTimeoutSeconds, request.MaxDurationSeconds = new(int32(60)), new(int32(0))
	request.CaCertificates = &sharedapi.CaCertificates{"PEM"}
	request.ClientCertificates = &sharedapi.ClientCertificates{{Origin: "O", Cert: new("C"), Key: new("K"), Pfx: new("F"), Passphrase: new("P")}}
	wantAllSet(t, request)
	draft := must(draftFromCreate(request))(t)
	if diff := cmp.Diff([]certs.ClientInput{{Origin: "O", Cert: "C", Key: "K", PFX: "F", Passphrase: "P"}}, draft.ClientCertificates); diff != "" {
		t.Errorf("client certificates (-want +got):\n%s", diff)
	}
	got, want := asJSON(t, draft.Fields), asJSON(t, request)
	delete(want, "clientCertificates") // not part of the fields
	delete(want["proxy"].(map[string]any), "password")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// wantAllSet fails if the test does not cover a field of the document.
func wantAllSet(t *testing.T, v any) {
	t.Helper()
	value := reflect.ValueOf(v)
	for i := range value.NumField() {
		if value.Field(i).IsZero() {
			t.Errorf("the test does not set the field %s", value.Type().Field(i).Name)
		}
	}
}

// must returns a function that returns the value, and fails the test for an error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func parsed[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func asJSON(t *testing.T, v any) map[string]any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return parsed[map[string]any](t, string(text))
}
