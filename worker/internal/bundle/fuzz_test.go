package bundle_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/worker/internal/bundle"
)

// FuzzDecode checks that whatever is accepted is sane and says the same when it
// is written again, and that whatever is refused is refused with a reason that
// a terminal can show.
func FuzzDecode(f *testing.F) {
	for _, c := range wrong {
		f.Add([]byte(c.content))
	}
	for _, content := range zoo {
		f.Add([]byte(content))
	}
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
			t.Fatalf("accepted what is no JSON object: %v", err)
		}
		if got.Name == "" || got.OS == "" || got.BrowserVersion < 0 || strings.ContainsAny(got.For(156).UserAgent, "{}\n") {
			t.Errorf("accepted %+v", got)
		}
		written, err := json.Marshal(loose)
		if err != nil {
			t.Fatal(err)
		}
		again, problems := bundle.Decode("f.json", written)
		if diff := cmp.Diff(got, again); diff != "" || len(problems) > 0 {
			t.Errorf("written again it has problems %v and differs (-first +again):\n%s", problems, diff)
		}
	})
}
