package bundle_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/worker/internal/browser/bundle"
)

// FuzzDecode checks that an accepted file is valid and decodes to the same bundle
// after encoding, and that each error of a refused file has a printable message.
func FuzzDecode(f *testing.F) {
	for _, c := range wrong {
		f.Add([]byte(c.content))
	}
	for _, content := range zoo {
		f.Add([]byte(content))
	}
	f.Add([]byte(`{"name": "Wolf", "os": "macos", "userAgent": "{minor}"}`))
	f.Add([]byte(`{"name": "Wolf", "os": "macos", "name": "Wolf"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, problems := bundle.Decode("f.json", raw)
		for _, p := range problems {
			if p.Message == "" || p.File != "f.json" || strings.ContainsFunc(p.Error(), unicode.IsControl) {
				t.Errorf("problem %+q", p)
			}
		}
		if len(problems) > 0 {
			return
		}
		var loose map[string]any
		if err := json.Unmarshal(raw, &loose); err != nil {
			t.Fatalf("accepted input that is not a JSON object: %v", err)
		}
		if got.Name == "" || got.OS == "" || got.BrowserVersion < 0 || strings.ContainsAny(got.For(156).UserAgent, "{}\n") {
			t.Errorf("accepted %+v", got)
		}
		if n := members(raw); n != len(loose) {
			t.Errorf("accepted %d members, of which %d differ", n, len(loose))
		}
		written, err := json.Marshal(loose)
		if err != nil {
			t.Fatal(err)
		}
		again, problems := bundle.Decode("f.json", written)
		if diff := cmp.Diff(got, again); diff != "" || len(problems) > 0 {
			t.Errorf("encoded and decoded again it has problems %v and differs (-first +again):\n%s", problems, diff)
		}
	})
}

// members counts the members of a JSON object, including duplicates.
func members(raw []byte) (n int) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	_, _ = decoder.Token() // the opening brace
	for ; decoder.More(); n++ {
		var value any
		_, _ = decoder.Token()
		_ = decoder.Decode(&value)
	}
	return n
}
