package contracttest

import (
	"maps"
	"net/http"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
)

// standardHeaders are the response headers of HTTP itself, caches, downloads, upgrades
// and browser security. Every other header must be documented by the operation.
var standardHeaders = headers(
	"Connection", "Content-Length", "Content-Type", "Date", "Transfer-Encoding", "Trailer",
	"Age", "Cache-Control", "Etag", "Expires", "Last-Modified", "Vary",
	"Accept-Ranges", "Content-Disposition", "Content-Encoding", "Content-Range",
	"Sec-Websocket-Accept", "Sec-Websocket-Extensions", "Sec-Websocket-Protocol", "Upgrade",
	"Content-Security-Policy", "Cross-Origin-Embedder-Policy", "Cross-Origin-Opener-Policy",
	"Cross-Origin-Resource-Policy", "Permissions-Policy", "Referrer-Policy", "Strict-Transport-Security",
	"X-Content-Type-Options", "X-Frame-Options",
)

func headers(names ...string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[http.CanonicalHeaderKey(name)] = true
	}
	return set
}

// checkUndocumentedHeaders reports headers that are not in the document.
func (x *Exchange) checkUndocumentedHeaders(documented *openapi3.Response) {
	names := headers(slices.Collect(maps.Keys(documented.Headers))...)
	for _, name := range slices.Sorted(maps.Keys(x.response.Header)) {
		if !standardHeaders[name] && !names[name] {
			x.addFinding("header %s is not documented", name)
		}
	}
}
