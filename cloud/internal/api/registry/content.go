package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// passed are the headers of the upstream's responses that reach clients.
var passed = []string{
	"Accept-Ranges", "Content-Length", "Content-Range", "Content-Type", "Docker-Content-Digest", "Etag", "Last-Modified",
}

// revalidated allows a client to cache, but requires it to ask before each use, so that
// no cache serves content for a revoked key.
const revalidated = "private, no-cache"

const bufferSize = 64 << 10

// content sends a manifest or a blob.
func (g *gate) content(c echo.Context, t target) error {
	r, h := c.Request(), c.Response().Header()
	upstream, err := g.Upstream.get(r.Context(), r.Method, t, r.Header)
	if err != nil {
		return err
	}
	defer upstream.close()
	if upstream.StatusCode >= http.StatusMultipleChoices && upstream.StatusCode != http.StatusNotModified {
		location, err := upstream.Location()
		if err != nil || location.Scheme != "https" && location.Scheme != g.Upstream.base.Scheme {
			return g.Upstream.unavailable(errors.New("the upstream registry redirects without a valid location"))
		}
		return c.Redirect(http.StatusTemporaryRedirect, location.String())
	}
	for _, each := range passed {
		if values := upstream.Header.Values(each); len(values) > 0 {
			h[each] = values
		}
	}
	h.Set(echo.HeaderCacheControl, revalidated)
	c.Response().WriteHeader(upstream.StatusCode)
	if err := g.copyBody(c, upstream); err != nil {
		if r.Context().Err() == nil {
			g.HTTP.Logger.WarnContext(r.Context(), "content ended early", "kind", t.kind, "error", err)
		}
		panic(http.ErrAbortHandler) // only closing the connection shows the client that the content is incomplete
	}
	return nil
}

// copyBody streams the body with a fixed buffer. Each part must arrive and leave within
// the idle timeout.
func (g *gate) copyBody(c echo.Context, upstream answer) error {
	idle, client := g.Upstream.IdleTimeout, http.NewResponseController(c.Response())
	buffer := make([]byte, bufferSize)
	for {
		n, err := upstream.read(buffer, idle)
		if n > 0 {
			_ = client.SetWriteDeadline(time.Now().Add(idle))
			if _, err := c.Response().Write(buffer[:n]); err != nil {
				return fmt.Errorf("write to the client: %w", err)
			}
		}
		if errors.Is(err, io.EOF) {
			// The deadline would stay for the next response on the connection.
			return errors.Join(client.Flush(), client.SetWriteDeadline(time.Time{}))
		}
		if err != nil {
			return fmt.Errorf("read from the upstream registry: %w", err)
		}
	}
}

// maxList is the maximum size of a list of tags.
const maxList = 8 << 20

// list sends the list of tags, with the name under which the client knows the image.
func (g *gate) list(c echo.Context, t target) error {
	t.reference = "list"
	upstream, err := g.Upstream.get(c.Request().Context(), http.MethodGet, t, nil)
	if err != nil {
		return err
	}
	defer upstream.close()
	var found struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}
	upstream.watch.Reset(g.Upstream.IdleTimeout)
	if err := json.NewDecoder(io.LimitReader(upstream.Body, maxList)).Decode(&found); err != nil {
		return g.Upstream.unavailable(fmt.Errorf("read the list of tags: %w", err))
	}
	found.Name = t.key + "/" + image
	setNextPage(c.Response().Header(), upstream.Header, t)
	return c.JSON(http.StatusOK, found)
}

// setNextPage links to the next page of the list as the upstream does, under the path
// that the client used.
func setNextPage(h, upstream http.Header, t target) {
	for _, link := range upstream.Values("Link") {
		address, parameters, _ := strings.Cut(strings.TrimPrefix(link, "<"), ">")
		next, err := url.Parse(address)
		if err == nil && strings.Contains(parameters, "next") {
			h.Set("Link", "<"+t.path+"?"+next.Query().Encode()+`>; rel="next"`)
		}
	}
}
