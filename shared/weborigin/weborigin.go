// Package weborigin finds the origins of web pages.
package weborigin

import "net/url"

// Of returns the origin of an http or https URL, such as https://example.com:8443,
// without credentials. It returns "" for another URL.
func Of(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
