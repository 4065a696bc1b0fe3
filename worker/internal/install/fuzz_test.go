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

	"github.com/browser-svc/svc/worker/internal/install"
)

// archiveFromLines is an archive of what the lines say: a kind (f file, x program,
// d directory, l link, p pipe), a name, and after a tab what is in it or where
// it leads.
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
		_, _ = file.Write([]byte(content)) // a directory takes nothing
	}
	_ = w.Close()
	return out.Bytes()
}

// FuzzUnpack unpacks any bytes, and any archive that lines describe: nothing is
// written elsewhere, or more than the limits, or anything but directories, files
// and links that stay inside; what is unpacked is what the archive says, and one
// without any trick is not refused.
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
			t.Fatalf("outside there is %v", around)
		}
		files, size := inventory(t, dir, err == nil)
		if size > limits.Bytes || len(files) > 3*limits.Entries || size/limits.Ratio > int64(len(raw)) {
			t.Fatalf("%d bytes of %d entries came of %d bytes", size, len(files), len(raw))
		}
		if err == nil {
			assertUnpacked(t, raw, dir, executable, files)
		} else if lines && isHarmless(raw) {
			t.Fatalf("refused: %v", err)
		}
		if err != nil && !errors.Is(err, install.ErrUnsafe) && lines && isHarmless(raw) {
			t.Errorf("a failure of ours: %v", err)
		}
	})
}

// inventory lists the files below a directory, with what is in them. Where links
// lead counts in one that is whole: another is removed.
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
				t.Fatalf("%q leads out, or nowhere: %v", name, err)
			}
			files[name] = "link"
		case 0:
			if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky|0o022) != 0 {
				t.Fatalf("%q is %v", name, info.Mode())
			}
			content, err := os.ReadFile(path)
			files[name], size = "file "+string(content), size+info.Size()
			return err
		default:
			t.Fatalf("%q is %v", name, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, size
}

// assertUnpacked compares what is there with what the archive says.
func assertUnpacked(t *testing.T, raw []byte, dir, executable string, files map[string]string) {
	t.Helper()
	info, err := os.Lstat(executable)
	name, errRel := filepath.Rel(dir, executable)
	if err != nil || errRel != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 || !filepath.IsLocal(name) {
		t.Fatalf("the program %q: %v, %v", executable, err, errRel)
	}
	archive, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatalf("unpacked what is no archive: %v", err)
	}
	root := ""
	for _, f := range archive.File {
		if f.Mode().IsRegular() && strings.HasSuffix("/"+f.Name, "/"+name) && strings.Count(f.Name, "/") <= 2 {
			root = strings.TrimSuffix(f.Name, name)
		}
	}
	for _, f := range archive.File {
		if !fs.ValidPath(strings.TrimSuffix(f.Name, "/")) || strings.ContainsAny(f.Name, "\\\x00") {
			t.Fatalf("unpacked an archive with %q in it", f.Name)
		}
		below, ok := strings.CutPrefix(f.Name, root)
		if !ok || !f.Mode().IsRegular() {
			continue
		}
		content, err := f.Open()
		if err != nil {
			t.Fatalf("unpacked what does not open: %v", err)
		}
		want, err := io.ReadAll(content)
		if err != nil || files[below] != "file "+string(want) {
			t.Fatalf("%q has become %q: %v", want, files[below], err)
		}
		delete(files, below)
	}
	for name, kind := range files {
		if kind != "link" {
			t.Errorf("%q is not in the archive", name)
		}
	}
}

// isHarmless reports whether an archive has nothing but a browser and files with
// ordinary names beside it.
func isHarmless(raw []byte) bool {
	archive, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil || len(archive.File) == 0 || len(archive.File) > 24 {
		return false
	}
	seen, size := map[string]bool{}, uint64(0)
	for i, f := range archive.File {
		rest, ok := strings.CutPrefix(f.Name, "b/")
		plain := ok && rest != "" && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz") == "" && f.Mode().IsRegular() && !seen[rest]
		if size += f.UncompressedSize64; !plain || (rest == "chrome") != (i == 0) || rest == "chromium" || size > 2000 || size/20 > uint64(len(raw)) {
			return false
		}
		seen[rest] = true
	}
	return true
}
