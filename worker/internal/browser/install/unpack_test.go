package install_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser/install"
)

func TestUnpack_RefusesHostileArchives(t *testing.T) {
	browser := program("b/chrome")
	hardLink := append([]byte{0x0d, 0x00, 24, 0}, make([]byte, 12)...)
	hardLink = append(hardLink, "/etc/passwd."...)
	many := []entry{browser}
	for i := range 100 {
		many = append(many, file(fmt.Sprintf("b/%d", i), ""))
	}
	for name, test := range map[string]struct {
		entries []entry
		raw     []byte // used instead of entries
		limits  install.Limits
		reason  string
	}{
		"no archive":                       {raw: []byte("not a zip archive"), reason: "not a valid zip"},
		"escape by dots":                   {entries: []entry{browser, file("../evil", "x")}, reason: "a path outside"},
		"escape by dots further in":        {entries: []entry{browser, file("b/../../evil", "x")}, reason: "a path outside"},
		"escape by backslash":              {entries: []entry{browser, file(`b\..\..\evil`, "x")}, reason: "a path outside"},
		"absolute path":                    {entries: []entry{browser, file("/tmp/evil", "x")}, reason: "a path outside"},
		"NUL in a name":                    {entries: []entry{browser, file("b/a\x00b", "x")}, reason: "a path outside"},
		"symlink out":                      {entries: []entry{browser, symlink("b/out", "../../../etc/passwd")}, reason: "points outside"},
		"absolute symlink":                 {entries: []entry{browser, symlink("b/out", "/etc/passwd")}, reason: "points outside"},
		"symlink out of the browser":       {entries: []entry{browser, file("secret", "x"), symlink("b/out", "../secret")}, reason: "points outside"},
		"symlink out through another":      {entries: []entry{browser, file("b/a/c/x", ""), symlink("b/a/c/top", "../.."), symlink("b/out", "a/c/top/..")}, reason: "does not resolve inside"},
		"dangling symlink":                 {entries: []entry{browser, symlink("b/out", "nothing")}, reason: "does not resolve inside"},
		"long symlink":                     {entries: []entry{browser, symlink("b/out", strings.Repeat("a/", 2000))}, reason: "points outside"},
		"symlink, then write through it":   {entries: []entry{browser, symlink("b/dir", "/tmp"), file("b/dir/evil", "x")}, reason: "is not a directory"},
		"write, then a symlink above it":   {entries: []entry{browser, file("b/dir/evil", "x"), symlink("b/dir", ".")}, reason: "is not a directory"},
		"file as a directory":              {entries: []entry{browser, file("b/chrome/evil", "x")}, reason: "is not a directory"},
		"symlink for the browser":          {entries: []entry{symlink("b/chrome", "/bin/sh")}, reason: "contains no browser"},
		"hard link":                        {entries: []entry{browser, {name: "b/hard", mode: 0o644, extra: hardLink}}, reason: "hard link"},
		"device":                           {entries: []entry{browser, {name: "b/dev", mode: fs.ModeDevice | 0o666}}, reason: "not a file, directory or link"},
		"character device":                 {entries: []entry{browser, {name: "b/dev", mode: fs.ModeDevice | fs.ModeCharDevice | 0o666}}, reason: "not a file, directory or link"},
		"named pipe":                       {entries: []entry{browser, {name: "b/pipe", mode: fs.ModeNamedPipe | 0o666}}, reason: "not a file, directory or link"},
		"socket":                           {entries: []entry{browser, {name: "b/sock", mode: fs.ModeSocket | 0o666}}, reason: "not a file, directory or link"},
		"the same name twice":              {entries: []entry{browser, file("b/a", "1"), file("b/a", "2")}, reason: "duplicate entry"},
		"a directory called like a file":   {entries: []entry{browser, file("b/a", "1"), {name: "b/a/", mode: fs.ModeDir | 0o755}}, reason: "duplicate entry"},
		"bomb by ratio":                    {entries: []entry{browser, file("b/zeros", strings.Repeat("\x00", 10<<20))}, reason: "would unpack"},
		"bomb by size":                     {entries: []entry{browser, file("b/a", randomContent(1<<20)), file("b/c", randomContent(1<<20))}, limits: install.Limits{Bytes: 3 << 19}, reason: "more than 1572864 bytes"},
		"bomb by count":                    {entries: many, limits: install.Limits{Entries: 100}, reason: "the limit is 100"},
		"bomb by depth":                    {entries: []entry{browser, file("b/"+strings.Repeat("d/", 100)+"x", "")}, reason: "is too long"},
		"bomb by long names":               {entries: []entry{browser, file("b/"+strings.Repeat("d", 5000), "")}, reason: "is too long"},
		"bomb by directories":              {entries: nestedEntries(browser, 10), limits: install.Limits{Entries: 100}, reason: "more than 100 entries, including directories"},
		"a size that is not the content's": {raw: archiveWithWrongSize(t, browser, "b/wrong-size", randomContent(4096), 100), reason: "does not match the archive's headers"},
		"bomb by one content for many":     {raw: archiveWithSharedContent(t, browser, 300), reason: "would unpack"},
		"no browser":                       {entries: []entry{file("readme", "x")}, reason: "contains no browser"},
		"a browser too deep":               {entries: []entry{program("a/b/c/chrome")}, reason: "contains no browser"},
		"two browsers":                     {entries: []entry{browser, program("c/chrome")}, reason: "more than one browser"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			r.Limits = test.limits
			if test.raw == nil {
				test.raw = archive(t, test.entries...)
			}
			r.publish(test.raw)
			_, _, err := r.Install(t.Context(), version)
			if !errors.Is(err, install.ErrUnsafe) || !strings.Contains(err.Error(), test.reason) {
				t.Errorf("error %v, want one about %q", err, test.reason)
			}
			if len(r.canary.tried) > 0 {
				t.Error("the build was tested")
			}
			r.assertNotInstalled(t)
			if _, err := os.Lstat("/tmp/evil"); err == nil {
				t.Error("/tmp/evil was written")
			}
		})
	}
}

// nestedEntries returns few entries in many directories that have no entries.
func nestedEntries(first entry, files int) []entry {
	entries := []entry{first}
	for i := range files {
		entries = append(entries, file(fmt.Sprintf("b/%d/%sx", i, strings.Repeat("d/", 10)), ""))
	}
	return entries
}

// archiveWithWrongSize returns an archive whose directory and header both state a
// smaller size for an entry than it has.
func archiveWithWrongSize(t *testing.T, first entry, name, content string, size uint64) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	first.write(t, w)
	// Compressed separately, because zip.Writer would write the real size.
	var packed bytes.Buffer
	inner := zip.NewWriter(&packed)
	file(name, content).write(t, inner)
	if err := inner.Close(); err != nil {
		t.Fatal(err)
	}
	archive, err := zip.NewReader(bytes.NewReader(packed.Bytes()), int64(packed.Len()))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := archive.File[0].OpenRaw()
	if err != nil {
		t.Fatal(err)
	}
	header := archive.File[0].FileHeader
	header.UncompressedSize64, header.Flags = size, 0
	writer, err := w.CreateRaw(&header)
	if err != nil {
		t.Fatal(err)
	}
	var content2 bytes.Buffer
	if _, err := content2.ReadFrom(raw); err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Write(content2.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// archiveWithSharedContent returns an archive whose directory lists the same content
// under many names.
func archiveWithSharedContent(t *testing.T, first entry, times int) []byte {
	t.Helper()
	raw := archive(t, first, file("b/0000", randomContent(64<<10)))
	end := bytes.LastIndex(raw, []byte("PK\x05\x06"))
	start := int(raw[end+16]) | int(raw[end+17])<<8 | int(raw[end+18])<<16
	directory := raw[start:end]
	i := bytes.LastIndex(directory, []byte("PK\x01\x02"))
	record := directory[i:]
	out := append([]byte{}, raw[:start]...)
	out = append(out, directory[:i]...)
	for i := range times {
		copied := append([]byte{}, record...)
		copy(copied[46:], fmt.Sprintf("b/%04d", i))
		out = append(out, copied...)
	}
	length, count := len(out)-start, times+1
	tail := append([]byte{}, raw[end:]...)
	for _, field := range []int{8, 10} {
		tail[field], tail[field+1] = byte(count), byte(count>>8)
	}
	for i := range 4 {
		tail[12+i] = byte(length >> (8 * i))
	}
	return append(out, tail...)
}

func TestUnpack_SetsLayoutAndModes(t *testing.T) {
	r := newFixture(t)
	r.publish(archive(t,
		entry{name: "top/", mode: fs.ModeDir | 0o700},
		file("top/LICENSE", "outside of the browser"),
		entry{name: "top/linux/chrome", content: "ELF", mode: 0o644}, // without mode bits, as from a system that has none
		entry{name: "top/linux/chrome-sandbox", content: "helper", mode: fs.ModeSetuid | 0o755},
		file("top/linux/locales/de.pak", "de"),
		symlink("top/linux/libfoo.so", "lib/libfoo.so.1"),
		file("top/linux/lib/libfoo.so.1", "lib"),
		symlink("top/linux/lib/up", "../locales"),
	))
	r.canary.during = func(executable string) {
		if installed, _ := r.Installed(); len(installed) > 0 {
			t.Errorf("listed before it was tested: %v", installed)
		}
		if !strings.HasPrefix(executable, filepath.Join(r.Dir, ".install")+"/") || filepath.Base(executable) != "chrome" {
			t.Errorf("tested %s", executable)
		}
	}
	r.install(t)
	place := filepath.Join(r.Dir, version)
	for name, mode := range map[string]fs.FileMode{
		".": fs.ModeDir | 0o755, "chrome": 0o755, "chrome-sandbox": 0o755, "locales": fs.ModeDir | 0o755, "locales/de.pak": 0o644,
		"libfoo.so": 0o644, "lib/up": fs.ModeDir | 0o755,
	} {
		info, err := os.Stat(filepath.Join(place, name))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s has mode %v, want %v (%v)", name, info, mode, err)
		}
	}
	if got := read(t, filepath.Join(place, "lib/up/de.pak")); got != "de" {
		t.Errorf("through a link: %q", got)
	}
	if _, err := os.Lstat(filepath.Join(place, "LICENSE")); err == nil {
		t.Error("a file outside the browser's directory was unpacked")
	}
	if left := r.partialFiles(t); len(left) > 0 {
		t.Errorf("leaked downloads: %v", left)
	}
}
