package app

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/browser-svc/svc/db/embedded"
)

// TestDatabaseDump_ContainsNoPlaintextSecret lives with the service for a while
// (life_test.go), and then looks for every secret that came up in all that the
// database holds, however often that is wrapped in hexadecimal or base64.
func TestDatabaseDump_ContainsNoPlaintextSecret(t *testing.T) {
	h := newTestEnv(t, nil)
	l := startLifecycle(t, h)
	waiting := unwrapped(dump(t, h.dsn)) // some mail is still in the outbox
	l.must(l.deliver() == 2, "the reset and the invitation of the end were not waiting")
	for when, layers := range map[string][]string{"while mail waits": waiting, "when all mail is out": unwrapped(dump(t, h.dsn))} {
		for _, what := range slices.Sorted(maps.Keys(l.secrets)) {
			for how, form := range forms(l.secrets[what]) {
				if place := find(layers, form); place != "" {
					t.Errorf("%s, the dump has the %s (%s): %q", when, what, how, place)
				}
			}
		}
		// Had the search gone wrong, it would not find these either.
		for _, what := range l.remembered {
			if sum := sha256.Sum256([]byte(l.secrets[what])); find(layers, string(sum[:])) == "" {
				t.Errorf("%s, the dump lacks the SHA-256 of the %s", when, what)
			}
		}
	}
}

// dump is all that the tables hold; bytea is in hexadecimal.
func dump(t *testing.T, dsn string) string {
	t.Helper()
	bin, err := embedded.FindBin(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "pg_dump"), "--data-only", "--dbname="+dsn)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("pg_dump: %v: %s", err, complaint.String())
	}
	return string(text)
}

var (
	hexRun    = regexp.MustCompile(`(?i)[0-9a-f]{32,}`)
	base64Run = regexp.MustCompile(`[A-Za-z0-9+/_-]{20,}`)
	oneBase64 = strings.NewReplacer("-", "+", "_", "/")
)

// unwrapped is a text, and what comes out of it when all that may be hexadecimal
// or base64 is decoded, four times over.
func unwrapped(text string) []string {
	layers, last := []string{text}, []string{text}
	for range 4 {
		var next []string
		for _, layer := range last {
			for _, run := range hexRun.FindAllString(layer, -1) {
				for skip := range 2 {
					even := run[skip : len(run)-(len(run)-skip)%2]
					raw, _ := hex.DecodeString(even) // it has nothing but digits
					next = append(next, string(raw))
				}
			}
			for _, run := range base64Run.FindAllString(layer, -1) {
				for skip := range 4 { // where the encoding began is not known
					raw, _ := base64.RawStdEncoding.DecodeString(oneBase64.Replace(run[skip:])) // what comes before an end that is none
					next = append(next, string(raw))
				}
			}
		}
		layers, last = append(layers, next...), next
	}
	return layers
}

// forms are the ways in which a secret could be there: as it is, as the bytes
// that it stands for when it is a token or a key, or as a password that is
// hashed without salt.
func forms(secret string) map[string]string {
	all := map[string]string{"in clear": secret}
	if raw, err := base64.RawURLEncoding.DecodeString(secret); err == nil && len(raw) == 32 {
		all["decoded"] = string(raw)
	}
	if body, isKey := strings.CutPrefix(secret, "svc_"); isKey {
		all["without its marker"] = body
		if raw, err := base32.StdEncoding.DecodeString(strings.ToUpper(body)); err == nil {
			all["decoded"] = string(raw)
		}
	}
	if strings.HasPrefix(secret, passwordPrefix) {
		long, short := sha256.Sum256([]byte(secret)), md5.Sum([]byte(secret))
		all["as its SHA-256"], all["as its MD5"] = string(long[:]), string(short[:])
	}
	return all
}

// find is where in the layers something is, "" when it is in none.
func find(layers []string, form string) string {
	for _, layer := range layers {
		if at := strings.Index(layer, form); at >= 0 {
			return layer[max(0, at-80):min(len(layer), at+len(form)+80)]
		}
	}
	return ""
}
