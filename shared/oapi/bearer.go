package oapi

import (
	"net/http"
	"strings"
)

// BearerToken returns the Bearer token of the Authorization header, or "".
func BearerToken(h http.Header) string {
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
