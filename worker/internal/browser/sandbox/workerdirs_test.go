package sandbox_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// shownDir is a host directory that sandboxes show.
const shownDir = "/usr/share/zoneinfo"

func TestOpen_ReportsExposedWorkerFiles(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(shownDir, link); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		own, dir string
		visible  bool
	}{
		"elsewhere":               {own: t.TempDir()},
		"its files":               {own: shownDir, visible: true},
		"its files, by a link":    {own: link, visible: true},
		"working directory":       {own: t.TempDir(), dir: shownDir, visible: true},
		"working directory above": {own: t.TempDir(), dir: "/"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.dir != "" {
				t.Chdir(tc.dir)
			}
			h := open(t, func(o *sandbox.Options) { o.WorkerDir = tc.own })
			pieces := h.Report().Pieces
			files := pieces[slices.IndexFunc(pieces, func(p sandbox.Piece) bool { return p.Name == sandbox.PrivateFiles })]
			if files.On == tc.visible || tc.visible && !strings.Contains(files.Reason, shownDir) {
				t.Errorf("reported as %+v", files)
			}
			if !h.Private() {
				t.Error("sandboxes have no private files")
			}
		})
	}
}

func TestSetup_RefusesProgramBesideWorkerFiles(t *testing.T) {
	workingDir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	own := testenv.PublicTempDir(t)
	for name, tc := range map[string]struct {
		dir     string
		refused bool
	}{
		"elsewhere":           {dir: testenv.PublicTempDir(t)},
		"in a subdirectory":   {dir: filepath.Join(own, "browsers", "1.2.3.4")},
		"next to its files":   {dir: own, refused: true},
		"above them":          {dir: filepath.Dir(own), refused: true},
		"working directory":   {dir: workingDir, refused: true},
		"next to its program": {dir: filepath.Dir(self), refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.MkdirAll(tc.dir, 0o755); err != nil {
				t.Fatal(err)
			}
			h := open(t, func(o *sandbox.Options) { o.WorkerDir = own })
			sb, _ := h.startEmpty(t)
			err = sb.Setup(t.Context(), sandbox.Config{UID: uid(), Program: filepath.Join(tc.dir, "chromium")})
			if refused := err != nil && strings.Contains(err.Error(), "separate directory"); refused != tc.refused || err != nil && !refused {
				t.Errorf("got %v, want refused %v", err, tc.refused)
			}
		})
	}
}

func TestSandbox_ShowsRequiredHostFiles(t *testing.T) {
	var needed []string
	for _, path := range []string{
		"/usr/share/fonts", "/usr/local/share/fonts", "/usr/share/zoneinfo/UTC", "/usr/share/X11/xkb", "/usr/lib/locale", "/etc/fonts/fonts.conf",
		"/etc/ssl/certs/ca-certificates.crt", "/usr/local/share/ca-certificates", "/usr/share/ca-certificates", "/usr/lib/x86_64-linux-gnu/dri",
	} {
		if exists(path) {
			needed = append(needed, path)
		}
	}
	script := "for path in " + strings.Join(needed, " ") + "; do test -r $path || echo $path; done"
	if missing := open(t, nil).run(t, script); missing != "" {
		t.Errorf("missing:\n%s", missing)
	}
}
