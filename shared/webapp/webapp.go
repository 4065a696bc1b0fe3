// Package webapp serves a web application: a page, index.html, at each of the
// application's routes, and the files below assets/, whose names contain a hash of their
// content.
//
//	bundle, err := webapp.New(dashboard.Files, webapp.Options{Public: public})
//	bundle.Register(e, "/", "/sessions", "/sessions/:id")
package webapp

import (
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// Options configure a Bundle.
type Options struct {
	// Public is the URL of the service for browsers. Its path is the base of the
	// relative URLs in the page. nil means the path /.
	Public *url.URL
	// Frames allows the page to show pages of the service in frames.
	Frames bool
}

// Bundle is a built web application.
type Bundle struct {
	page   echo.HandlerFunc
	assets map[string]echo.HandlerFunc // by the name below assets/
}

// policy allows resources and requests of this service only. Screenshots are data: and
// blob: URLs.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; " +
	"connect-src 'self'; media-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'none'; manifest-src 'self'"

const (
	assetsDir = "assets"
	base      = `<base href="/">`

	// immutable is for files whose names contain a hash of their content.
	immutable = "public, max-age=31536000, immutable"
)

// fileType is how the files with one extension are served.
type fileType struct {
	contentType string
	text        bool // compressed
}

var fileTypes = map[string]fileType{
	".css":         {"text/css; charset=utf-8", true},
	".ico":         {"image/x-icon", false},
	".js":          {"text/javascript; charset=utf-8", true},
	".json":        {"application/json", true},
	".map":         {"application/json", true},
	".png":         {"image/png", false},
	".svg":         {"image/svg+xml", true},
	".txt":         {"text/plain; charset=utf-8", true},
	".webmanifest": {"application/manifest+json", true},
	".webp":        {"image/webp", false},
	".woff2":       {"font/woff2", false},
}

// ContentType returns the content type of the files with this extension, such as ".js";
// "" if it is unknown.
func ContentType(extension string) string { return fileTypes[extension].contentType }

// New returns the application in files, which has index.html and assets/. It returns an
// error if a file is missing or cannot be served.
func New(files fs.FS, options Options) (*Bundle, error) {
	index, err := fs.ReadFile(files, "index.html")
	if err != nil {
		return nil, fmt.Errorf("web application: %w", err)
	}
	if strings.Count(string(index), base) != 1 {
		return nil, fmt.Errorf("web application: index.html must contain %s exactly once", base)
	}
	page := strings.Replace(string(index), base, `<base href="`+html.EscapeString(basePath(options.Public))+`">`, 1)
	b := &Bundle{assets: map[string]echo.HandlerFunc{}}
	b.page = Asset{
		ContentType: "text/html; charset=utf-8", Policy: options.policy(), Encodings: []string{Brotli, Gzip},
		Content: func() []byte { return []byte(page) },
	}.Handler()
	err = fs.WalkDir(files, assetsDir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return b.addAsset(files, name)
	})
	if err == nil && len(b.assets) == 0 {
		err = errors.New("the directory " + assetsDir + " is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("web application: %w", err)
	}
	return b, nil
}

func (o Options) policy() string {
	if o.Frames {
		return policy + "; frame-src 'self'"
	}
	return policy
}

func (b *Bundle) addAsset(files fs.FS, name string) error {
	kind, ok := fileTypes[path.Ext(name)]
	if !ok {
		return fmt.Errorf("%s: the content type of %q is unknown: add it to shared/webapp", name, path.Ext(name))
	}
	a := Asset{
		ContentType: kind.contentType, CacheControl: immutable,
		Content: func() []byte {
			content, err := fs.ReadFile(files, name)
			if err != nil {
				panic(fmt.Errorf("web application: %w", err)) // the files do not change
			}
			return content
		},
	}
	if kind.text {
		a.Encodings = []string{Brotli, Gzip}
	}
	b.assets[strings.TrimPrefix(name, assetsDir+"/")] = a.Handler()
	return nil
}

// basePath returns the path of the URL, with a slash at both ends.
func basePath(public *url.URL) string {
	if public == nil {
		return "/"
	}
	if prefix := strings.Trim(public.EscapedPath(), "/"); prefix != "" {
		return "/" + prefix + "/"
	}
	return "/"
}

// Page serves the page, for a route of its own.
func (b *Bundle) Page(c echo.Context) error { return b.page(c) }

// Register serves the page at the routes, which are patterns of Echo, and the assets. A
// placeholder matches one segment of the path.
func (b *Bundle) Register(e *echo.Echo, routes ...string) {
	read := []string{http.MethodGet, http.MethodHead}
	for _, route := range routes {
		e.Match(read, route, func(c echo.Context) error {
			// Echo's last placeholder also matches several segments.
			if slices.ContainsFunc(c.ParamValues(), func(value string) bool { return strings.Contains(value, "/") }) {
				return echo.ErrNotFound
			}
			return b.page(c)
		})
	}
	e.Match(read, "/"+assetsDir+"/*", func(c echo.Context) error {
		serve, found := b.assets[c.Param("*")]
		if !found {
			return echo.ErrNotFound
		}
		return serve(c)
	})
}
