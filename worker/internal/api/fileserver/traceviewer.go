package fileserver

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/lazy"
	"github.com/browser-svc/svc/worker/internal/auth/access"
)

// TraceViewer returns the directory with the files of Playwright's trace viewer. Error: *fault.Error if it is not
// installed.
type TraceViewer func() (dir string, err error)

// isolation is the beginning of the viewer's service worker.
//
//go:embed traceviewer.js
var isolation []byte

const viewerWorker = "sw.bundle.js"

// viewerTypes are the content types of the viewer's files.
var viewerTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	".ttf": "font/ttf", ".webmanifest": "application/manifest+json",
}

var scriptElement = lazy.Regexp(`(?s)<script(?:[^>]* src="\./([^"]+)")?[^>]*>(.*?)</script>`)

// viewerFile answers with a file of the trace viewer, with a policy for the trace of one session.
func (s *Service) viewerFile(c echo.Context) error {
	dir, err := s.viewer()
	if err != nil {
		return err
	}
	name, session := c.Param("file"), c.Param("sessionId")
	kind, ok := viewerTypes[path.Ext(name)]
	isPage := name == "index.html" || name == "snapshot.html"
	if !ok || !isPage && path.Ext(name) == ".html" { // such as the page that runs tests
		return fault.Missing("file of the trace viewer")
	}
	content, err := readBelow(dir, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.Missing("file of the trace viewer")
	case err != nil:
		return err
	}
	recordings := access.Recordings{Address: s.address}
	files := recordings.Viewer(session) + "/"
	policy := "default-src 'none'"
	switch {
	case isPage:
		policy = viewerPolicy(files, content)
	case name == viewerWorker:
		content = append(bytes.Clone(isolation), content...)
		policy += "; connect-src " + files + " " + recordings.Trace(session)
	}
	c.Response().Header().Set("Content-Security-Policy", policy+"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	return c.Blob(http.StatusOK, kind, content)
}

func readBelow(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.ReadFile(name)
}

// viewerPolicy is for a page of the viewer. The viewer makes styles and pictures itself, and shows an empty document as a data: URL.
// Its service worker adds the policy of the snapshots. Scripts are listed because the service worker answers some addresses with
// files of recorded pages.
func viewerPolicy(files string, page []byte) string {
	var scripts strings.Builder
	for _, script := range scriptElement().FindAllSubmatch(page, -1) {
		if source := string(script[1]); source != "" {
			scripts.WriteString(" " + files + source)
			continue
		}
		sum := sha256.Sum256(script[2])
		scripts.WriteString(" 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'")
	}
	return "default-src 'none'; script-src " + files + "assets/" + scripts.String() + "; style-src " + files + " 'unsafe-inline'; img-src " + files + " data: blob:; font-src " + files +
		"; connect-src " + files + "; worker-src " + files + viewerWorker + "; manifest-src " + files + "; frame-src " + files + "snapshot/ data:"
}
