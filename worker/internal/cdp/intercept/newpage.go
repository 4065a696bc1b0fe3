package intercept

import (
	"net/url"
	"strings"
)

// opensBlank reports whether a page with this URL is opened blank and then navigated.
func (c *Calls) opensBlank(page string) bool {
	return c.Navigate != nil && page != "" && !strings.HasPrefix(page, "about:") && c.HasSettings()
}

// NewPage returns the URL of the page that /json/new opens with a query, and whether the caller
// must open a blank page instead and call Navigate. Chromium unescapes the query. A query with
// invalid escapes is left to it.
func (c *Calls) NewPage(query string) (page string, blank bool) {
	page, err := url.PathUnescape(query)
	return page, err == nil && c != nil && c.opensBlank(page)
}
