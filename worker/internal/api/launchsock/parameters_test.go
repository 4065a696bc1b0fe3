package launchsock

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/fault"
)

const profileInTest = "0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f"

func withQuery(query string) *http.Request {
	return &http.Request{Header: http.Header{}, URL: &url.URL{RawQuery: query}}
}

func TestParseRequest_ParametersSetLaunch(t *testing.T) {
	for query, want := range map[string]string{
		"":                           `{"spec":{}}`,
		"profile=" + profileInTest:   `{"profileId":"` + profileInTest + `"}`,
		"profileId=" + profileInTest: `{"profileId":"` + profileInTest + `"}`,
		"profileId=" + profileInTest + "&headless=false&timeout=90500": `{"profileId":"` + profileInTest + `","browser":{"headless":false,"maxDurationSeconds":91}}`,
		"browserVersion=150&headless=true":                             `{"spec":{"browserVersion":150},"browser":{"headless":true}}`,
		"timeout=1":                                                    `{"spec":{},"browser":{"maxDurationSeconds":1}}`,
		"timeout=604800000":                                            `{"spec":{},"browser":{"maxDurationSeconds":604800}}`,
		"proxy=http://p.example:1":                                     `{"spec":{},"proxyOverride":{"server":"http://p.example:1"}}`,
		"proxy=socks5://me:p%2540ss@p.example:1/":                      `{"spec":{},"proxyOverride":{"server":"socks5://p.example:1","username":"me","password":"p@ss"}}`,
		"proxy=http://me@p.example:1":                                  `{"spec":{},"proxyOverride":{"server":"http://p.example:1","username":"me"}}`,
	} {
		a, err := parseRequest(withQuery(query + "&token=" + fuzzedKey))
		if err != nil || a.key.Reveal() != fuzzedKey {
			t.Errorf("%s: key %q, %v", query, a.key.Reveal(), err)
			continue
		}
		var got, expected any
		if err := errors.Join(json.Unmarshal(a.body, &got), json.Unmarshal([]byte(want), &expected)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(expected, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

func TestParseRequest_NamesEveryWrongParameter(t *testing.T) {
	env := "env=" + url.QueryEscape(`{"profileId":"`+profileInTest+`"}`)
	for query, want := range map[string]map[string]string{
		"profile=a&profileId=b":        {"profile": fault.Custom},
		"profile=a&browserVersion=150": {"browserVersion": fault.Custom},
		"profile=a&profile=b":          {"profile": fault.Custom},
		"browserVersion=150.1":         {"browserVersion": fault.NotInteger},
		"timeout=1.5&headless=new&proxy=none&browserVersion=": {
			"timeout": fault.NotInteger, "headless": fault.InvalidType, "proxy": fault.InvalidFormat, "browserVersion": fault.NotInteger,
		},
		"timeout=0":                      {"timeout": fault.TooSmall},
		"timeout=-99999999999999999999":  {"timeout": fault.TooSmall},
		"timeout=604800001":              {"timeout": fault.TooBig},
		"timeout=99999999999999999999":   {"timeout": fault.TooBig},
		"proxy=":                         {"proxy": fault.InvalidFormat},
		"proxy=http://me:hidden@:x":      {"proxy": fault.InvalidFormat},
		"stealth=true&blockAds=true":     {"stealth": fault.UnrecognizedKey, "blockAds": fault.UnrecognizedKey},
		"token=" + fuzzedKey + "x":       {"token": fault.Custom},
		env + "&timeout=1000&headless=1": {"timeout": fault.Custom, "headless": fault.Custom, "token": fault.Custom},
	} {
		_, err := parseRequest(withQuery(query + "&token=" + fuzzedKey))
		f, ok := errors.AsType[*fault.Error](err)
		if !ok || f.Kind != fault.Validation {
			t.Errorf("%s: %v", query, err)
			continue
		}
		got := map[string]string{}
		for _, detail := range f.PublicDetails() {
			got[detail.Field] = detail.Code
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
		if text, _ := json.Marshal(f.PublicDetails()); strings.Contains(string(text), fuzzedKey) || strings.Contains(string(text), "hidden") {
			t.Errorf("%s: the error repeats a secret: %s", query, text)
		}
	}
	r := withQuery("token=" + fuzzedKey)
	r.Header.Set("X-Api-Key", "svc_another")
	if _, err := parseRequest(r); !fault.Is(err, fault.Validation) {
		t.Errorf("two different keys: %v", err)
	}
	r.Header.Set("X-Api-Key", fuzzedKey)
	if a, err := parseRequest(r); err != nil || a.key.Reveal() != fuzzedKey {
		t.Errorf("the same key twice: %v", err)
	}
	for _, query := range []string{"", "token=", "headless=new"} {
		if _, err := parseRequest(withQuery(query)); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("%q without a key: %v", query, err)
		}
	}
}
