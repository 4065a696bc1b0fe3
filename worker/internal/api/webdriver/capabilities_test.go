package webdriver

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/fault"
)

func TestParseNewSession_Converts(t *testing.T) {
	for name, tc := range map[string]struct{ body, launch, forward string }{
		"nothing":     {`{"capabilities":{}}`, `{"spec":{}}`, `{}`},
		"null":        {`{"capabilities":{"alwaysMatch":{"proxy":null,"browserName":null}}}`, `{"spec":{}}`, `{}`},
		"first match": {`{"capabilities":{"alwaysMatch":{"timeouts":{"script":1}},"firstMatch":[{"browserName":"firefox"},{"platformName":"windows"},{"browserName":"Chrome","pageLoadStrategy":"none"}]}}`, `{"spec":{}}`, `{"pageLoadStrategy":"none","timeouts":{"script":1}}`},
		"own options": {`{"capabilities":{"alwaysMatch":{"svc:options":{"token":"k","profileId":"p","waitSeconds":3,"browser":{"headless":false}}}}}`, `{"browser":{"headless":false},"profileId":"p","waitSeconds":3}`, `{}`},
		"version":     {`{"capabilities":{"alwaysMatch":{"browserVersion":"150.0.1.2","svc:options":{"spec":{"locale":"de-DE"}}}}}`, `{"spec":{"browserVersion":150,"locale":"de-DE"}}`, `{}`},
		"args":        {`{"capabilities":{"alwaysMatch":{"goog:chromeOptions":{"args":["headless=new","--no-sandbox","--lang=de"],"extensions":[],"w3c":true,"windowTypes":["webview"]}}}}`, `{"browser":{"args":["--lang=de"],"headless":true},"spec":{}}`, `{"goog:chromeOptions":{"windowTypes":["webview"]}}`},
		"indented":    {"{\"capabilities\": {\"firstMatch\": [{\"goog:chromeOptions\": {\n\"args\": [\n ],\n\"extensions\": [\n ]\n}}]}}", `{"spec":{}}`, `{}`},
		"HTTP proxy":  {`{"capabilities":{"alwaysMatch":{"proxy":{"proxyType":"manual","httpProxy":"p:1","sslProxy":"p:1","noProxy":["a","b"]}}}}`, `{"proxyOverride":{"bypass":"a,b","server":"http://p:1"},"spec":{}}`, `{}`},
		"SOCKS proxy": {`{"capabilities":{"alwaysMatch":{"proxy":{"proxyType":"MANUAL","socksProxy":"p:1","socksVersion":5}}}}`, `{"proxyOverride":{"server":"socks5://p:1"},"spec":{}}`, `{}`},
		"no proxy":    {`{"capabilities":{"alwaysMatch":{"proxy":{"proxyType":"direct"}}}}`, `{"proxyOverride":null,"spec":{}}`, `{}`},
		"client's":    {`{"capabilities":{"alwaysMatch":{"se:noVncPort":7900,"wdio:maxInstances":1,"setWindowRect":true}}}`, `{"spec":{}}`, `{}`},
		"Grid's":      {`{"capabilities":{"alwaysMatch":{"se:name":"x","se:timeZone":"Asia/Tokyo","se:screenResolution":"1600x900","se:recordVideo":"true"}}}`, `{"browser":{"name":"x","record":["video"],"screen":{"height":900,"width":1600},"timezoneId":"Asia/Tokyo"},"spec":{}}`, `{}`},
	} {
		got, err := parseNewSession([]byte(tc.body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		forward, err := json.Marshal(got.forward)
		if err != nil || string(got.launchBody()) != tc.launch || string(forward) != tc.forward {
			t.Errorf("%s: launch %s, forward %s (%v); want %s and %s", name, got.launchBody(), forward, err, tc.launch, tc.forward)
		}
	}
}

func TestParseNewSession_RefusesFields(t *testing.T) {
	for capabilities, fields := range map[string][]string{
		`{"browserVersion":"latest","timeouts":1,"pageLoadStrategy":"fast"}`:   {"browserVersion", "pageLoadStrategy", "timeouts"},
		`{"browserVersion":"150","svc:options":{"profileId":"p"}}`:             {"browserVersion"},
		`{"browserVersion":"150","svc:options":{"spec":{"browserVersion":1}}}`: {"browserVersion"},
		`{"webSocketUrl":"yes","acceptInsecureCerts":1,"setWindowRect":false}`: {"acceptInsecureCerts", "setWindowRect", "webSocketUrl"},
		`{"browserName":1,"moz:firefoxOptions":{},"vendor:x":1}`:               {"browserName", "moz:firefoxOptions", "vendor:x"},
		`{"svc:options":1}`: {"svc:options"},
		`{"se:name":1,"se:timeZone":[],"se:screenResolution":"wide","se:recordVideo":"perhaps"}`: {"se:name", "se:recordVideo", "se:screenResolution", "se:timeZone"},
		`{"se:name":"x","svc:options":{"browser":{"name":"y"}}}`:                                 {"se:name"},
		`{"svc:options":null}`:        nil,
		`{"svc:options":{"token":1}}`: {"svc:options.token"},
		`{"goog:chromeOptions":{"binary":"/bin/sh","debuggerAddress":"127.0.0.1:1","extensions":["x"],"prefs":{},"mobileEmulation":{},"detach":true,"w3c":false}}`: {
			"goog:chromeOptions.binary", "goog:chromeOptions.debuggerAddress", "goog:chromeOptions.detach", "goog:chromeOptions.extensions",
			"goog:chromeOptions.mobileEmulation", "goog:chromeOptions.prefs", "goog:chromeOptions.w3c",
		},
		`{"goog:chromeOptions":{"args":"--headless"}}`:                                                             {"goog:chromeOptions.args"},
		`{"goog:chromeOptions":{"args":["--headless"]},"svc:options":{"browser":{"headless":false}}}`:              {"goog:chromeOptions.args[0]"},
		`{"goog:chromeOptions":{"args":["--lang=de"]},"svc:options":{"browser":{"args":["--lang=fr"]}}}`:           {"goog:chromeOptions.args"},
		`{"proxy":{"proxyType":"pac","proxyAutoconfigUrl":"http://x"}}`:                                            {"proxy.proxyType"},
		`{"proxy":{"proxyType":"manual","httpProxy":"a:1","sslProxy":"b:1"}}`:                                      {"proxy"},
		`{"proxy":{"proxyType":"manual","socksProxy":"a:1","socksVersion":4}}`:                                     {"proxy"},
		`{"proxy":{"proxyType":"manual","httpProxy":"a:1"},"svc:options":{"proxyOverride":{"server":"http://b"}}}`: {"proxy"},
	} {
		_, err := parseNewSession([]byte(`{"capabilities":{"alwaysMatch":` + capabilities + `}}`))
		var got []string
		if f, ok := errors.AsType[*fault.Error](err); ok {
			for _, detail := range f.Details {
				got = append(got, detail.Field)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, fields) || err != nil && !fault.Is(err, fault.Validation) {
			t.Errorf("%s: %v, want an error for %v", capabilities, err, fields)
		}
	}
}

func TestParseNewSession_RefusesRequest(t *testing.T) {
	for body, want := range map[string]string{
		`{`:                                  "not valid",
		`{"desiredCapabilities":{}}`:         "not valid",
		`{"capabilities":1}`:                 "not valid",
		`{"capabilities":{"firstMatch":{}}}`: "not valid",
		`{"capabilities":{"alwaysMatch":{"browserName":"chrome"},"firstMatch":[{"browserName":"chrome"}]}}`: "not valid",
		`{"capabilities":{"firstMatch":[{"browserName":"safari"},{"platformName":"mac"}]}}`:                 "platformName must be linux or any",
	} {
		if _, err := parseNewSession([]byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

func TestRequestKey(t *testing.T) {
	for name, tc := range map[string]struct {
		header, authorization, token string
		basic                        [2]string
		want, problem                string
	}{
		"none":           {problem: "key is required"},
		"header":         {header: "k", want: "k"},
		"bearer":         {authorization: "bearer k", want: "k"},
		"password":       {basic: [2]string{"user", "k"}, want: "k"},
		"user":           {basic: [2]string{"k", ""}, want: "k"},
		"capability":     {token: "k", want: "k"},
		"twice the same": {header: "k", token: "k", want: "k"},
		"different":      {header: "k", token: "other", problem: "not valid"},
		"another scheme": {authorization: "Digest k", problem: "key is required"},
	} {
		r := &http.Request{Header: http.Header{}}
		if tc.basic != [2]string{} {
			r.SetBasicAuth(tc.basic[0], tc.basic[1])
		}
		if tc.authorization != "" {
			r.Header.Set("Authorization", tc.authorization)
		}
		r.Header.Set(keyHeader, tc.header)
		got, err := requestKey(r, tc.token)
		if got != tc.want || (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestNewID_IsMasked checks that logs do not show the id of a session, which is a
// credential.
func TestNewID_IsMasked(t *testing.T) {
	id := newID()
	if masked := fault.MaskSecrets("/wd/hub/session/" + id + "/url"); strings.Contains(masked, id[4:]) || id == newID() {
		t.Errorf("%s is logged as %s", id, masked)
	}
}

// FuzzParseNewSession checks that arbitrary requests cause no panic, and that what they
// forward never chooses the program or the browser.
func FuzzParseNewSession(f *testing.F) {
	f.Add([]byte(`{"capabilities":{"alwaysMatch":{"goog:chromeOptions":{"args":["--headless"],"perfLoggingPrefs":{}},"proxy":{"proxyType":"direct"}},"firstMatch":[{"browserVersion":"150"}]}}`))
	f.Add([]byte(`{"capabilities":{"alwaysMatch":{"svc:options":{"spec":null,"browser":null},"browserVersion":"1","goog:chromeOptions":{"args":["a"],"debuggerAddress":"x"}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		n, err := parseNewSession(body)
		if err != nil {
			return
		}
		if !json.Valid(n.launchBody()) {
			t.Errorf("the launch is %s", n.launchBody())
		}
		options, _ := n.forward[chromeOptions].(map[string]any)
		for _, name := range []string{"binary", "debuggerAddress", "args", "extensions"} {
			if options[name] != nil {
				t.Errorf("%s is forwarded", name)
			}
		}
	})
}
