package extension_test

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser/extension"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func open(t *testing.T, dir string) *extension.Store {
	t.Helper()
	s, err := extension.Open(extension.Options{Dir: dir, Clock: clock.NewFake(now)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pack returns a zip archive.
func pack(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write([]byte(files[name]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// packLink returns an archive with a symbolic link next to a manifest.
func packLink(t *testing.T, target string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	f, err := w.Create("manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.Write([]byte(plain))
	header := &zip.FileHeader{Name: "link.js"}
	header.SetMode(fs.ModeSymlink | 0o777)
	if f, err = w.CreateHeader(header); err != nil {
		t.Fatal(err)
	}
	_, _ = f.Write([]byte(target))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const plain = `{"manifest_version":3,"name":"Plain","version":"1.0"}`

func add(t *testing.T, s *extension.Store, packed []byte) extension.Extension {
	t.Helper()
	result, err := s.Add(t.Context(), bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// problem returns field and message of an error's first detail.
func problem(err error) (kind fault.Kind, field, message string) {
	f := fault.From(err)
	if f == nil || len(f.Details) == 0 {
		return 0, "", ""
	}
	return f.Kind, f.Details[0].Field, f.Details[0].Message
}
