package webapp

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/labstack/echo/v4"
)

// The content codings that an Asset can offer.
const (
	Brotli = "br"
	Gzip   = "gzip"
)

// Asset is content that does not change while the process runs. It is created and
// compressed at the first request, because most processes never serve it.
type Asset struct {
	ContentType  string
	CacheControl string   // "" means no-cache: clients revalidate it, so an upgrade is visible at once
	Policy       string   // Content-Security-Policy, if any
	Encodings    []string // offered content codings, in order of preference
	Content      func() []byte
}

// representation is the content in one content coding; "" is the uncompressed content.
type representation struct {
	encoding string
	content  func() []byte
	etag     func() string
}

// Handler returns the handler of GET and HEAD requests.
func (a Asset) Handler() echo.HandlerFunc {
	if a.CacheControl == "" {
		a.CacheControl = "no-cache"
	}
	content := sync.OnceValue(a.Content)
	etag := sync.OnceValue(func() string {
		sum := sha256.Sum256(content())
		return hex.EncodeToString(sum[:16])
	})
	representations := map[string]representation{"": {content: content, etag: etag}}
	for _, encoding := range a.Encodings {
		representations[encoding] = representation{
			encoding: encoding,
			content:  sync.OnceValue(func() []byte { return compressed(encoding, content()) }),
			etag:     func() string { return etag() + "-" + encoding },
		}
	}
	return func(c echo.Context) error {
		a.serve(c, representations[negotiate(c.Request().Header, a.Encodings)])
		return nil
	}
}

func (a Asset) serve(c echo.Context, r representation) {
	h := c.Response().Header()
	h.Set("Content-Type", a.ContentType)
	h.Set("Cache-Control", a.CacheControl)
	if len(a.Encodings) > 0 {
		h.Set("Vary", "Accept-Encoding")
	}
	if a.Policy != "" {
		h.Set("Content-Security-Policy", a.Policy)
	}
	h.Set("ETag", strconv.Quote(r.etag()))
	content := r.content()
	if r.encoding != "" {
		h.Set("Content-Encoding", r.encoding)
		h.Set("Content-Length", strconv.Itoa(len(content))) // ServeContent omits it with a Content-Encoding
	}
	http.ServeContent(c.Response(), c.Request(), "", time.Time{}, bytes.NewReader(content))
}

func compressed(encoding string, content []byte) []byte {
	var out bytes.Buffer
	if encoding == Brotli {
		w := brotli.NewWriterLevel(&out, brotli.BestCompression)
		_, _ = w.Write(content) // a bytes.Buffer does not fail
		_ = w.Close()
		return out.Bytes()
	}
	w := gzip.NewWriter(&out)
	_, _ = w.Write(content)
	_ = w.Close()
	return out.Bytes()
}

// negotiate returns the offered content coding that the client prefers, "" for the
// uncompressed content. Among equal weights the first offered one is used. A Range
// request always gets the uncompressed content.
func negotiate(h http.Header, offered []string) string {
	if len(offered) == 0 || h.Get("Range") != "" {
		return ""
	}
	weights := encodingWeights(h)
	best, highest := "", weights["identity"]
	for _, encoding := range offered {
		weight, named := weights[encoding]
		if !named {
			weight = weights["*"]
		}
		if weight > 0 && (weight > highest || best == "" && weight == highest) {
			best, highest = encoding, weight
		}
	}
	return best
}

// encodingWeights returns the weights in Accept-Encoding by content coding. An invalid
// weight is 0.
func encodingWeights(h http.Header) map[string]float64 {
	weights := map[string]float64{}
	for offer := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, parameter, weighted := strings.Cut(offer, ";")
		weight := 1.0
		if weighted {
			key, value, _ := strings.Cut(parameter, "=")
			parsed, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			valid := err == nil && parsed >= 0 && parsed <= 1 && strings.EqualFold(strings.TrimSpace(key), "q")
			if weight = parsed; !valid {
				weight = 0
			}
		}
		weights[strings.ToLower(strings.TrimSpace(name))] = weight
	}
	return weights
}
