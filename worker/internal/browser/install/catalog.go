package install

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
)

// responseTimeout limits the wait for a response's header, and for a complete
// response other than an archive.
const responseTimeout = 15 * time.Second

// Catalog is the cloud's catalog. It implements Source.
type Catalog struct {
	api  *cloudapi.ClientWithResponses
	web  *http.Client
	base *url.URL
	key  string
}

var _ Source = (*Catalog)(nil)

// NewCatalog returns the catalog of the cloud at an address, using the
// organization key. Archives are always requested from that address, so that the
// key is sent nowhere else. roots are the trusted certificate authorities; nil for those of
// the system.
func NewCatalog(address, key string, roots *x509.CertPool) (*Catalog, error) {
	base, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("cloud address: %w", err)
	}
	c := &Catalog{base: base, key: key, web: &http.Client{
		Transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			Proxy:                 http.ProxyFromEnvironment,
			TLSClientConfig:       &tls.Config{RootCAs: roots},
			TLSHandshakeTimeout:   5 * time.Second,
			ResponseHeaderTimeout: responseTimeout,
			IdleConnTimeout:       time.Minute,
			ForceAttemptHTTP2:     true,
			DisableCompression:    true, // ranges refer to the stored bytes
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	c.api, err = cloudapi.NewClientWithResponses(address, cloudapi.WithHTTPClient(c.web),
		cloudapi.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			r.Header.Set("X-API-Key", key)
			return nil
		}))
	if err != nil {
		return nil, fmt.Errorf("cloud address: %w", err)
	}
	return c, nil
}

// Releases implements Source.
func (c *Catalog) Releases(ctx context.Context, system, arch string, major int) ([]Release, error) {
	number, limit := int32(1), int32(100)
	sortBy, order := cloudapi.Version, sharedapi.Desc
	query := cloudapi.ListChromiumReleasesParams{
		Page: &number, Limit: &limit, SortBy: &sortBy, SortOrder: &order,
		Os: new(cloudapi.BuildOs(system)), Arch: new(cloudapi.BuildArch(arch)),
	}
	if major != 0 {
		query.Major = new(sharedapi.BrowserVersion(major))
	}
	var found []Release
	for ; ; number++ {
		list, err := c.page(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, r := range list.Items {
			found = append(found, Release{Version: r.Version, Major: int(r.Major), Channel: string(r.Channel),
				OS: string(r.Os), Arch: string(r.Arch), SizeBytes: r.SizeBytes, SHA256: r.Sha256})
		}
		if !list.Pagination.HasNext || len(list.Items) == 0 {
			return found, nil
		}
	}
}

func (c *Catalog) page(ctx context.Context, query cloudapi.ListChromiumReleasesParams) (cloudapi.ChromiumReleaseList, error) {
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	answer, err := c.api.ListChromiumReleasesWithResponse(ctx, &query)
	if err != nil {
		return cloudapi.ChromiumReleaseList{}, fmt.Errorf("read the catalog: %w", err)
	}
	if answer.JSON200 == nil || !bool(answer.JSON200.Success) {
		return cloudapi.ChromiumReleaseList{}, fmt.Errorf("read the catalog: %w", statusError(answer.StatusCode(), answer.Body))
	}
	return answer.JSON200.Data, nil
}

// Open implements Source.
func (c *Catalog) Open(ctx context.Context, r Release, offset int64) (content io.ReadCloser, begin int64, err error) {
	address := c.base.JoinPath("v1/chromium/releases", r.Version, "download")
	address.RawQuery = url.Values{"os": {r.OS}, "arch": {r.Arch}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("X-API-Key", c.key)
	if offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		request.Header.Set("If-Range", `"`+r.SHA256+`"`)
	}
	answer, err := c.web.Do(request)
	if err != nil {
		return nil, 0, err
	}
	if begin, err = r.checkResponse(answer, offset); err != nil {
		_ = answer.Body.Close()
		return nil, 0, err
	}
	return answer.Body, begin, nil
}

// checkResponse returns where the content of a response begins, or why the
// response is unusable.
func (r Release) checkResponse(answer *http.Response, offset int64) (begin int64, err error) {
	var size int64 // size of the archive; -1 if unknown
	switch answer.StatusCode {
	case http.StatusOK:
		size = answer.ContentLength
	case http.StatusPartialContent:
		var last int64
		if _, err := fmt.Sscanf(answer.Header.Get("Content-Range"), "bytes %d-%d/%d", &begin, &last, &size); err != nil || begin != offset {
			return 0, fmt.Errorf("%w: the cloud sent another range than requested", ErrPermanent)
		}
	case http.StatusRequestedRangeNotSatisfiable:
		return 0, ErrOutOfRange
	case http.StatusNotFound:
		return 0, fmt.Errorf("%w: it is no longer in the catalog", ErrChanged)
	default:
		body, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
		return 0, statusError(answer.StatusCode, body)
	}
	for _, sum := range []string{strings.Trim(answer.Header.Get("ETag"), `"`), answer.Header.Get("X-Checksum-Sha256")} {
		if sum != "" && sum != r.SHA256 {
			return 0, ErrChanged
		}
	}
	if size >= 0 && size != r.SizeBytes {
		return 0, fmt.Errorf("%w: the archive has %d bytes", errMismatch, size)
	}
	return begin, nil
}

// statusError returns the error of an unsuccessful response. Only temporary
// failures are worth a retry.
func statusError(status int, body []byte) error {
	var response sharedapi.ErrorResponse
	message := http.StatusText(status)
	if json.Unmarshal(body, &response) == nil && response.Error.Message != "" {
		message = response.Error.Message
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fmt.Errorf("%w: the cloud refuses SVC_KEY: %s", ErrPermanent, message)
	case status >= 500 || status == http.StatusTooManyRequests:
		return fmt.Errorf("the cloud answered %d: %s", status, message)
	}
	return fmt.Errorf("%w: the cloud answered %d: %s", ErrPermanent, status, message)
}
