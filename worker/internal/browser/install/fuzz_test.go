package install_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser/install"
)

// archiveFromLines builds an archive from lines: a kind (f file, x program, d
// directory, l link, p pipe), a name and, after a tab, the content or link target.
func archiveFromLines(lines string) []byte {
	modes := map[byte]fs.FileMode{'f': 0o644, 'x': 0o755, 'd': fs.ModeDir | 0o755, 'l': fs.ModeSymlink | 0o777, 'p': fs.ModeNamedPipe | 0o666}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for line := range strings.Lines(lines) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			continue
		}
		name, content, _ := strings.Cut(line[1:], "\t")
		header := &zip.FileHeader{Name: name, Method: zip.Deflate}
		header.SetMode(modes[line[0]])
		file, err := w.CreateHeader(header)
		if err != nil {
			continue
		}
		_, _ = file.Write([]byte(content)) // a directory has no content
	}
	_ = w.Close()
	return out.Bytes()
}

// FuzzUnpack unpacks arbitrary bytes and archives built from lines. It checks that
// nothing is written outside the directory or above the limits, that only
// directories, files and links inside the directory are created, that the contents
// match the archive, and that harmless archives are not refused.
func FuzzUnpack(f *testing.F) {
	for _, lines := range []string{
		"xb/chrome\t#!\nfb/a\ttext\nlb/l\ta\ndb/d/", "xchrome\t#!", "xb/chrome\nf../evil\tx", "xb/chrome\nlb/out\t../../etc", "xb/chrome\nlb/d\t/tmp\nfb/d/evil\tx", "xb/chrome\nlb/d\t.\nlb/d2\td/..\n",
		"xb/chrome\nlb/chrome2\tchrome2", "xb/chrome\npb/pipe", "xb/chrome\nfb/a\nfb/a", "xb/chrome\nfb/a/b\nfb/a", "xa/chrome\nxb/chromium", "fb/chrome/\tx", "xb/chrome\nfb/z\t" + strings.Repeat("0", 12_000),
		"xb/chrome\nfb\\..\\x", "xb/chrome\nf/x", "xb/chrome\nlb/a/up\t..\nfb/a/x\ny\nlb/o\ta/up/../x", "xb/chrome\ndb/chrome/x/", "xb/./chrome", "fchrome/chrome/chrome", "db/chrome/",
	} {
		f.Add(true, []byte(lines))
		f.Add(false, archiveFromLines(lines))
	}
	limits := install.Limits{Bytes: 16 << 10, Entries: 24, Ratio: 20}
	f.Fuzz(func(t *testing.T, lines bool, raw []byte) {
		if lines {
			raw = archiveFromLines(string(raw))
		}
		above := t.TempDir()
		archive, dir := filepath.Join(above, "archive.zip"), filepath.Join(above, "build")
		if err := os.WriteFile(archive, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		i := &install.Installer{Dir: above, Limits: limits, Free: func(string) (int64, error) { return 1 << 40, nil }}
		executable, err := i.Unpack(t.Context(), archive, dir)
		if around, _ := os.ReadDir(above); len(around) > 2 {
			t.Fatalf("unexpected files outside the directory: %v", around)
		}
		files, size := inventory(t, dir, err == nil)
		if size > limits.Bytes || len(files) > 3*limits.Entries || size/limits.Ratio > int64(len(raw)) {
			t.Fatalf("unpacked %d bytes in %d entries from %d bytes", size, len(files), len(raw))
		}
		if err == nil {
			assertUnpacked(t, raw, dir, executable, files)
		} else if lines && isHarmless(raw) {
			t.Fatalf("a harmless archive was refused: %v", err)
		}
		if err != nil && !errors.Is(err, install.ErrUnsafe) && lines && isHarmless(raw) {
			t.Errorf("unexpected error: %v", err)
		}
	})
}

// inventory returns the files below a directory with their contents. With whole set,
// it also checks the targets of links; incomplete unpacks are removed anyway.
func inventory(t *testing.T, dir string, whole bool) (files map[string]string, size int64) {
	t.Helper()
	files = map[string]string{}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return files, 0
	}
	inside, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch info.Mode().Type() {
		case fs.ModeDir:
		case fs.ModeSymlink:
			if _, err := inside.Stat(name); err != nil && whole {
				t.Fatalf("the link %q does not resolve inside the directory: %v", name, err)
			}
			files[name] = "link"
		case 0:
			if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky|0o022) != 0 {
				t.Fatalf("%q has mode %v", name, info.Mode())
			}
			content, err := os.ReadFile(path)
			files[name], size = "file "+string(content), size+info.Size()
			return err
		default:
			t.Fatalf("%q has mode %v", name, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, size
}

// assertUnpacked compares the unpacked files with the archive.
func assertUnpacked(t *testing.T, raw []byte, dir, executable string, files map[string]string) {
	t.Helper()
	info, err := os.Lstat(executable)
	name, errRel := filepath.Rel(dir, executable)
	if err != nil || errRel != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 || !filepath.IsLocal(name) {
		t.Fatalf("the program %q: %v, %v", executable, err, errRel)
	}
	archive, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatalf("unpacked an invalid archive: %v", err)
	}
	root := ""
	for _, f := range archive.File {
		if f.Mode().IsRegular() && strings.HasSuffix("/"+f.Name, "/"+name) && strings.Count(f.Name, "/") <= 2 {
			root = strings.TrimSuffix(f.Name, name)
		}
	}
	for _, f := range archive.File {
		if !fs.ValidPath(strings.TrimSuffix(f.Name, "/")) || strings.ContainsAny(f.Name, "\\\x00") {
			t.Fatalf("unpacked an archive that contains %q", f.Name)
		}
		below, ok := strings.CutPrefix(f.Name, root)
		if !ok || !f.Mode().IsRegular() {
			continue
		}
		content, err := f.Open()
		if err != nil {
			t.Fatalf("unpacked an unreadable entry: %v", err)
		}
		want, err := io.ReadAll(content)
		if err != nil || files[below] != "file "+string(want) {
			t.Fatalf("%q was unpacked as %q: %v", want, files[below], err)
		}
		delete(files, below)
	}
	for name, kind := range files {
		if kind != "link" {
			t.Errorf("%q is not in the archive", name)
		}
	}
}

// isHarmless reports whether an archive contains only a browser and files with
// ordinary names next to it.
func isHarmless(raw []byte) bool {
	archive, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil || len(archive.File) == 0 || len(archive.File) > 24 {
		return false
	}
	names, size := map[string]bool{}, uint64(0)
	for i, f := range archive.File {
		rest, ok := strings.CutPrefix(f.Name, "b/")
		plain := ok && rest != "" && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz") == "" && f.Mode().IsRegular() && !names[rest]
		if size += f.UncompressedSize64; !plain || (rest == "chrome") != (i == 0) || rest == "chromium" || size > 2000 || size/20 > uint64(len(raw)) {
			return false
		}
		names[rest] = true
	}
	return true
}
