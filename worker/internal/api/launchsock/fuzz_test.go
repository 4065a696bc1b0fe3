package launchsock

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/fault"
)

const fuzzedKey = "svc_abcdefghijklmnopqrstuvwxyz234567"

// FuzzEnv parses ?env= as JSON and as base64url of it. It checks that both have the
// same result, that the result agrees with a JSON decoder, and that the organization
// key is removed, appears in no error, and everything else is unchanged.
func FuzzEnv(f *testing.F) {
	for _, env := range []string{
		`{"SVC_KEY":"` + fuzzedKey + `","profileId":"0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f"}`, `{"profileId":1,"SVC_KEY":"` + fuzzedKey + `"}`,
		`{"SVC_KEY":"a","SVC_KEY":"` + fuzzedKey + `"}`, `{"\u0053VC_KEY":"` + fuzzedKey + `","a":{"SVC_KEY":2}}`, `{"SVC_KEY":5}`, `{"SVC_KEY":null}`, `{"SVC_KEY":""}`,
		`{}`, `{"a":1}`, `[]`, `{`, `{"a":1,}`, `{"a":1}}`, ` {"a" : [1, 2.50] , "a":3}` + "\n", `{"svc_key":"` + fuzzedKey + `"}`, `"` + fuzzedKey, fuzzedKey, `{"":{"":""}}`, "{\"\xff\":1}", `{"a":` + strings.Repeat("[", 200),
	} {
		f.Add(env, "")
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(env)), fuzzedKey)
	}
	f.Fuzz(func(t *testing.T, env, header string) {
		a, err := parseRequest(newRequest(env, header))
		if err != nil {
			assertHoldsNoSecret(t, err, env)
		} else if header != "" && a.key.Reveal() != header || a.key.IsZero() {
			t.Errorf("the key is %q", a.key.Reveal())
		}
		text := strings.TrimSpace(env)
		if strings.HasPrefix(text, "{") {
			again, errAgain := parseRequest(newRequest(base64.URLEncoding.EncodeToString([]byte(text)), header))
			if !bytes.Equal(a.body, again.body) || a.key.Reveal() != again.key.Reveal() || (err == nil) != (errAgain == nil) {
				t.Errorf("%q, %v; in base64url %q, %v", a.body, err, again.body, errAgain)
			}
		} else if decoded, bad := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "=")); bad == nil {
			text = string(decoded)
		}
		var want map[string]any
		if json.Unmarshal([]byte(text), &want) != nil || want == nil {
			if err == nil {
				t.Errorf("%q was parsed as %q", env, a.body)
			}
			return
		}
		key, isText := want["SVC_KEY"].(string)
		if err != nil {
			twice := strings.Count(text, "KEY") > 1 || strings.Contains(text, `\u`)
			if header+key != "" && (isText || want["SVC_KEY"] == nil) && !twice {
				t.Errorf("%q: %v", env, err)
			}
			return
		}
		delete(want, "SVC_KEY")
		var got map[string]any
		if bad := json.Unmarshal(a.body, &got); bad != nil || !reflect.DeepEqual(got, want) || header == "" && a.key.Reveal() != key {
			t.Errorf("%q was parsed as %q (%v) and the key %q", env, a.body, bad, a.key.Reveal())
		}
	})
}

func newRequest(env, header string) *http.Request {
	r := &http.Request{Header: http.Header{}, URL: &url.URL{RawQuery: url.Values{"env": {env}}.Encode()}}
	if header != "" {
		r.Header["X-Api-Key"] = []string{header}
	}
	return r
}

// assertHoldsNoSecret fails if an error repeats text that may be a key.
func assertHoldsNoSecret(t *testing.T, err error, env string) {
	t.Helper()
	text, _ := json.Marshal(fault.From(err))
	for word := range strings.FieldsFuncSeq(env, func(r rune) bool { return strings.ContainsRune(` "{}[]:,`, r) }) {
		if len(word) > len("is given more than once") && bytes.Contains(text, []byte(word)) || strings.Contains(string(text), fuzzedKey) {
			t.Errorf("%s repeats %q", text, word)
		}
	}
	if f := fault.From(err); f.Kind != fault.Validation && f.Kind != fault.Unauthenticated {
		t.Errorf("%v", err)
	}
}
