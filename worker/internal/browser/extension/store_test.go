package extension_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser/extension"
	"github.com/browser-svc/svc/worker/internal/testing/browsertest"
)

func TestAdd_StoresAndSurvivesRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "extensions")
	s := open(t, dir)
	packed := pack(t, browsertest.ExtensionFiles())
	got := add(t, s, packed)
	want := extension.Extension{
		ID: got.ID, ChromiumID: got.ChromiumID, Name: browsertest.ExtensionName, Version: "1.2.3", ManifestVersion: 3,
		Size: int64(len(packed)), CreatedAt: now, Permissions: []string{"storage"},
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got.ID) != 64 || len(got.ChromiumID) != 32 {
		t.Errorf("extension (-want +got):\n%s", diff)
	}
	if again := add(t, s, packed); again.ID != got.ID {
		t.Errorf("the same package got the id %s, want %s", again.ID, got.ID)
	}
	for _, path := range []string{filepath.Join(dir, ".new-1"), filepath.Join(dir, strings.Repeat("0", 64))} {
		if err := os.Mkdir(path, 0o700); err != nil { // as after a crash
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]extension.Extension{want}, open(t, dir).List()); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
}

func TestAdd_SetsKey(t *testing.T) {
	// The id of the public key that this base64 text is: echo -n KEY | base64 -d | sha256sum | head -c32 | tr 0-9a-f a-p
	const key, keyID = "c3Zj", "deimgfigickoihabndojncbpbjbihcej"
	s := open(t, t.TempDir())
	for name, test := range map[string]struct {
		files map[string]string
		id    string // "" for any
		top   string
	}{
		"none":             {files: map[string]string{"manifest.json": plain}},
		"in the manifest":  {files: map[string]string{"manifest.json": strings.Replace(plain, "{", `{"key":"`+key+`",`, 1)}, id: keyID},
		"with a BOM":       {files: map[string]string{"manifest.json": "\ufeff" + plain}},
		"in a folder":      {files: map[string]string{"folder/manifest.json": plain, "folder/sub/a.js": "1", "__MACOSX/x": "", "folder/_metadata/x": "1"}},
		"manifest of part": {files: map[string]string{"manifest.json": plain, "sub/manifest.json": "{}"}},
	} {
		t.Run(name, func(t *testing.T) {
			extension := add(t, s, pack(t, test.files))
			if test.id != "" && extension.ChromiumID != test.id {
				t.Errorf("Chromium id %s, want %s", extension.ChromiumID, test.id)
			}
			dir, release, err := s.Use(extension.ID)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			raw, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
			var manifest struct {
				Key  string
				Name string
			}
			if err != nil || json.Unmarshal(raw, &manifest) != nil || manifest.Key == "" || manifest.Name != "Plain" {
				t.Errorf("manifest %s: %v", raw, err)
			}
			if _, err := os.Stat(filepath.Join(dir, "_metadata")); err == nil {
				t.Error("_metadata was unpacked")
			}
		})
	}
}

func TestAdd_RefusesInvalidPackages(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	manifest := func(text string) []byte { return pack(t, map[string]string{"manifest.json": text}) }
	for name, test := range map[string]struct {
		packed         []byte
		field, message string
	}{
		"no archive":        {[]byte("text"), "body", "must be a zip archive or a CRX3 file"},
		"no manifest":       {pack(t, map[string]string{"a.js": ""}), "body", "must have one manifest.json"},
		"two manifests":     {pack(t, map[string]string{"a/manifest.json": plain, "b/manifest.json": plain}), "body", "must have one manifest.json"},
		"no JSON":           {manifest("{"), "body", "not a valid JSON object"},
		"null":              {manifest("null"), "body", "not a valid JSON object"},
		"version 2":         {manifest(strings.Replace(plain, "3", "2", 1)), "body.manifest_version", "must be 3"},
		"no name":           {manifest(strings.Replace(plain, "Plain", " ", 1)), "body.name", "is required"},
		"bad version":       {manifest(strings.Replace(plain, "1.0", "one", 1)), "body.version", "must be one to four numbers"},
		"bad key":           {manifest(strings.Replace(plain, "{", `{"key":"?",`, 1)), "body.key", "must be a public key in base64"},
		"native messaging":  {manifest(strings.Replace(plain, "{", `{"optional_permissions":["tabs","nativeMessaging"],`, 1)), "body.permissions[1]", "is not allowed"},
		"large manifest":    {manifest(plain + largeText()), "body", "manifest.json of more than"},
		"path outside":      {pack(t, map[string]string{"manifest.json": plain, "../evil.js": ""}), "body", "has a path outside the archive"},
		"symbolic link":     {packLink(t, "/etc/passwd"), "body", "contains a symbolic link"},
		"bomb":              {pack(t, map[string]string{"manifest.json": plain, "zeros": strings.Repeat("\x00", 8<<20)}), "body", "would unpack"},
		"CRX2":              {[]byte("Cr24\x02\x00\x00\x00\x00\x00\x00\x00"), "body", "only CRX3 is supported"},
		"CRX without proof": {[]byte("Cr24\x03\x00\x00\x00\x00\x00\x00\x00"), "body", "its header is not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Add(t.Context(), bytes.NewReader(test.packed))
			if kind, field, message := problem(err); kind != fault.Validation || field != test.field || !strings.Contains(message, test.message) {
				t.Errorf("error %v about %s: %s", err, field, message)
			}
		})
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 || len(s.List()) > 0 {
		t.Errorf("left: %v", entries)
	}
}

// largeText returns 2 MB that are not easy to compress.
func largeText() string {
	var text strings.Builder
	for i := range 1 << 18 {
		fmt.Fprintf(&text, "%8d", i)
	}
	return text.String()
}

// endless is a body that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestAdd_RefusesLargeAndIncompleteBodies(t *testing.T) {
	s := open(t, t.TempDir())
	if _, err := s.Add(t.Context(), endless{}); !fault.Is(err, fault.TooLarge) {
		t.Errorf("endless: error %v", err)
	}
	if _, err := s.Add(t.Context(), io.MultiReader(strings.NewReader("PK"), errReader{io.ErrUnexpectedEOF})); !fault.Is(err, fault.Validation) {
		t.Errorf("incomplete: error %v", err)
	}
	broken := errors.New("broken")
	if _, err := s.Add(t.Context(), errReader{broken}); !errors.Is(err, broken) {
		t.Errorf("broken: error %v", err)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestDelete_KeepsFilesInUse(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	packed := pack(t, map[string]string{"manifest.json": plain})
	extension := add(t, s, packed)
	files, release, err := s.Use(extension.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(extension.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(files); err != nil {
		t.Errorf("the files of a running browser: %v", err)
	}
	_, getErr := s.Get(extension.ID)
	_, _, useErr := s.Use(extension.ID)
	for _, err := range []error{getErr, useErr, s.Delete(extension.ID)} {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("after the deletion: error %v", err)
		}
	}
	if again := add(t, s, packed); again.ID != extension.ID || len(s.List()) != 1 {
		t.Error("the extension was not stored again")
	}
	release()
	release()
	if _, err := os.Stat(files); err != nil {
		t.Errorf("the files of an extension that was stored again: %v", err)
	}
	if err := s.Delete(extension.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(files); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the files after the last use: %v", err)
	}
}
