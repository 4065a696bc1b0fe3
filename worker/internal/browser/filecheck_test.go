package browser_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// TestCheckFile_FindsWhatBrowserReads compares the check of an upload's path with what
// a page gets, in a browser with its own files and in one with the host's.
func TestCheckFile_FindsWhatBrowserReads(t *testing.T) {
	host := testenv.PublicTempDir(t)
	for name, mode := range map[string]os.FileMode{"open": 0o644, "closed": 0o600} {
		if err := os.WriteFile(filepath.Join(host, name), []byte("content"), mode); err != nil {
			t.Fatal(err)
		}
	}
	withAndWithoutIsolation(t, func(t *testing.T, r *fixture) {
		b := r.launch(t, r.spec("files"))
		c := dial(t, b)
		page := c.open(t, "about:blank")
		c.eval(t, page, `document.body.innerHTML = "<input type=file multiple>"`, nil)
		private := r.Isolation().On(sandbox.PrivateFiles)
		separateUser := b.UID() != os.Geteuid()
		for path, readable := range map[string]bool{
			"/etc/passwd":                         true, // the sandbox's or the host's
			"/no/such/file":                       false,
			"no-such-file":                        false,
			"/etc/passwd/below":                   false,
			"/etc/../../../etc/passwd":            true,
			"/" + strings.Repeat("a", 300):        false,
			host:                                  !private,
			filepath.Join(host, "open"):           !private,
			filepath.Join(host, "closed"):         !private && !separateUser,
			"/proc/1/root" + host + "/open":       false,
			"/proc/self/root" + host + "/missing": false,
		} {
			err := b.Calls().CheckFile(path)
			if strings.HasPrefix(path, "/proc/1/") && !private && os.Geteuid() == 0 && !separateUser {
				continue // the host's root reads it
			}
			if (err == nil) != readable {
				t.Errorf("%s: %v", path, err)
			}
		}
		upload := func(path string) (refusal string, size int) {
			var node struct{ Root struct{ NodeID int } }
			unmarshal(t, c.call(t, page, "DOM.getDocument", map[string]any{}), &node)
			var input struct{ NodeID int }
			unmarshal(t, c.call(t, page, "DOM.querySelector", map[string]any{"nodeId": node.Root.NodeID, "selector": "input"}), &input)
			err := c.Call(t.Context(), page, "DOM.setFileInputFiles", map[string]any{"nodeId": input.NodeID, "files": []string{path}}, nil)
			c.eval(t, page, `document.querySelector("input").files[0]?.arrayBuffer().then(b => b.byteLength).catch(() => -1) ?? -1`, &size)
			return fmt.Sprint(err), size
		}
		if refusal, size := upload("/etc/passwd"); refusal != "<nil>" || size <= 0 {
			t.Errorf("a readable file: %s, %d bytes", refusal, size)
		}
		if refusal, _ := upload("/no/such/file"); r.isolated && !strings.Contains(refusal, `no file "/no/such/file"`) {
			t.Errorf("a missing file: %s", refusal)
		}
	})
}
