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

// TestDatabaseDump_ContainsNoPlaintextSecret uses the service (lifecycle_test.go) and
// then searches a dump of the database for every secret, also in data that is encoded
// as hexadecimal or base64, up to four times.
func TestDatabaseDump_ContainsNoPlaintextSecret(t *testing.T) {
	h := newTestEnv(t, nil)
	l := startLifecycle(t, h)
	waiting := decodeAll(dump(t, h.dsn)) // some mail is still in the outbox
	l.must(l.deliver() == 2, "the last password reset and invitation are not in the outbox")
	for when, layers := range map[string][]string{"while mail is queued": waiting, "after all mail is sent": decodeAll(dump(t, h.dsn))} {
		for _, what := range slices.Sorted(maps.Keys(l.secrets)) {
			for how, form := range forms(l.secrets[what]) {
				if place := find(layers, form); place != "" {
					t.Errorf("%s: the dump contains the %s (%s): %q", when, what, how, place)
				}
			}
		}
		// These must be found; otherwise the search does not work.
		for _, what := range l.hashed {
			if sum := sha256.Sum256([]byte(l.secrets[what])); find(layers, string(sum[:])) == "" {
				t.Errorf("%s: the dump does not contain the SHA-256 of the %s", when, what)
			}
		}
	}
}

// dump returns the data of all tables; bytea is in hexadecimal.
func dump(t *testing.T, dsn string) string {
	t.Helper()
	bin, err := embedded.FindBin(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "pg_dump"), "--data-only", "--dbname="+dsn)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("pg_dump: %v: %s", err, stderr.String())
	}
	return string(text)
}

var (
	hexRun    = regexp.MustCompile(`(?i)[0-9a-f]{32,}`)
	base64Run = regexp.MustCompile(`[A-Za-z0-9+/_-]{20,}`)
	oneBase64 = strings.NewReplacer("-", "+", "_", "/")
)

// decodeAll returns the text and all decodings of its parts that can be hexadecimal or
// base64, up to four levels deep.
func decodeAll(text string) []string {
	layers, last := []string{text}, []string{text}
	for range 4 {
		var next []string
		for _, layer := range last {
			for _, run := range hexRun.FindAllString(layer, -1) {
				for skip := range 2 {
					even := run[skip : len(run)-(len(run)-skip)%2]
					raw, _ := hex.DecodeString(even) // always hexadecimal digits
					next = append(next, string(raw))
				}
			}
			for _, run := range base64Run.FindAllString(layer, -1) {
				for skip := range 4 { // the start of the encoded data is unknown
					raw, _ := base64.RawStdEncoding.DecodeString(oneBase64.Replace(run[skip:])) // decodes up to the first invalid character
					next = append(next, string(raw))
				}
			}
		}
		layers, last = append(layers, next...), next
	}
	return layers
}

// forms returns the forms in which a secret could be stored: as it is, decoded (a token
// or a key), and hashed without salt (a password).
func forms(secret string) map[string]string {
	all := map[string]string{"plaintext": secret}
	if raw, err := base64.RawURLEncoding.DecodeString(secret); err == nil && len(raw) == 32 {
		all["decoded"] = string(raw)
	}
	if body, isToken := strings.CutPrefix(secret, "svct_"); isToken {
		return forms(body)
	}
	if body, isKey := strings.CutPrefix(secret, "svc_"); isKey {
		all["without its prefix"] = body
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

// find returns the context of the first match in the layers, or "".
func find(layers []string, form string) string {
	for _, layer := range layers {
		if i := strings.Index(layer, form); i >= 0 {
			return layer[max(0, i-80):min(len(layer), i+len(form)+80)]
		}
	}
	return ""
}
