package oapi

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/browser-svc/svc/shared/fault"
)

const keyHeader = "X-API-Key"

// KeyKind is a kind of key by the prefix that the service gives it. The prefix does not
// tell whether a key is valid.
type KeyKind string

// The kinds of keys. An operator may choose a worker key without a prefix, or use an
// organization key as one. An access token is sent as a Bearer token, not in X-API-Key.
const (
	OrganizationKey KeyKind = "an organization key"
	WorkerKey       KeyKind = "a worker key"
	AccessToken     KeyKind = "an access token"
)

// KindOfKey returns the kind of a key by its prefix, "" if the prefix is unknown.
func KindOfKey(secret string) KeyKind {
	switch lower := strings.ToLower(secret); {
	case strings.HasPrefix(lower, "svc_"):
		return OrganizationKey
	case strings.HasPrefix(lower, "wrk_"):
		return WorkerKey
	case strings.HasPrefix(lower, "svct_"):
		return AccessToken
	}
	return ""
}

// credentials are the security schemes that clients choose, and how messages name them.
// Cookies that pages get otherwise are not among them.
var credentials = []struct {
	scheme, text string
	kind         KeyKind
}{
	{"workerKey", "the worker key (API_KEY of the worker, or its SVC_KEY if API_KEY is not set) in X-API-Key", WorkerKey},
	{"organizationKey", "an organization key (svc_, from the dashboard) in X-API-Key", OrganizationKey},
	{"dashboardSession", "a dashboard session (of sign-in) in the cookie svc_session", ""},
	{"dashboardBearer", "the token of a dashboard session as Authorization: Bearer", ""},
	{"dashboardBearer", "an access token (svct_) as Authorization: Bearer", AccessToken},
}

// addScheme adds a security scheme to the credentials that the operation names in its
// refusals. An operation without a scope accepts no access token.
func (o *operation) addScheme(name string) {
	for _, known := range credentials {
		if known.kind == AccessToken && o.info.Scope == "" {
			continue
		}
		if known.scheme == name && !slices.Contains(o.required, known.text) {
			o.required = append(o.required, known.text)
			o.keys = append(o.keys, known.kind)
		}
	}
}

// refuse returns the error for a request without a valid credential. A key of the wrong
// kind, or in the wrong header, is named. refusal is the error of an authenticator, or
// ErrNoCredential.
func (o *operation) refuse(r *http.Request, refusal error) error {
	isMissing := errors.Is(refusal, ErrNoCredential)
	if !isMissing && !fault.Is(refusal, fault.Unauthenticated) {
		return refusal
	}
	sent, bearer := r.Header.Get(keyHeader), BearerToken(r.Header)
	kind := KindOfKey(cmp.Or(sent, bearer))
	isRightPlace := (kind == AccessToken) == (sent == "")
	isRightKind := isRightPlace && slices.Contains(o.keys, kind)
	if !isMissing && (kind == "" || isRightKind) {
		return refusal
	}
	if len(o.required) == 0 {
		return fault.New(fault.Unauthenticated, "This request needs a valid credential.")
	}
	message := "This request requires " + strings.Join(o.required, ", or ") + "."
	if kind != "" {
		place := keyHeader
		if sent == "" {
			place = "Authorization"
		}
		message = place + " has " + string(kind) + ". " + message
	}
	return fault.New(fault.Unauthenticated, message)
}
