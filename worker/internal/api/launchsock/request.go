package launchsock

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/worker/internal/session"
)

const keyHeader = "X-API-Key"

// launchRequest is a parsed request.
type launchRequest struct {
	key  session.OrganizationKey
	body []byte // like the body of POST /sessions/profile
	// names are the parameters by the field of body that they set. Errors name them.
	names map[string]string
	// startTimeout limits the start of the browser; 0 is that of the launch.
	startTimeout time.Duration
}

// parseRequest reads the organization key from X-API-Key, Bearer, ?token= or ?env=, in
// this order, and the launch from ?env= or from the other parameters (specification
// 5.3). Errors: Unauthenticated without a key, Validation.
func parseRequest(r *http.Request) (launchRequest, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return launchRequest{}, malformedQuery(r.URL.RawQuery)
	}
	inHeader, inToken := headerKey(r.Header), session.NewOrganizationKey(query.Get("token"))
	a := launchRequest{key: inHeader}
	if a.key.IsZero() {
		a.key = inToken
	}
	if query.Has("env") {
		inside, err := a.readEnv(query.Get("env"))
		if a.key.IsZero() {
			a.key = inside
		}
		if a.key.IsZero() && err == nil {
			err = errNoKey
		}
		if err != nil {
			return launchRequest{}, err
		}
		return a, refuse(checkParameters(query, []string{"env"}))
	}
	if a.key.IsZero() {
		return launchRequest{}, errNoKey
	}
	details := checkParameters(query, parameters())
	if !inHeader.IsZero() && !inToken.IsZero() && !inHeader.Equal(inToken) {
		details = append(details, conflict("token", "the key in the header"))
	}
	body, more := a.parseParameters(query)
	if err := refuse(append(details, more...)); err != nil {
		return launchRequest{}, err
	}
	a.body, err = json.Marshal(body)
	return a, err
}

func refuse(details []fault.Detail) error {
	if len(details) == 0 {
		return nil
	}
	return fault.Invalid(details...)
}

// malformedQuery returns the error for an invalid query. It names the parameter
// only, because the query may contain the key.
func malformedQuery(query string) error {
	field := "query"
	for pair := range strings.SplitSeq(query, "&") {
		if _, err := url.ParseQuery(pair); err == nil {
			continue
		}
		if name, _, _ := strings.Cut(pair, "="); slices.Contains(append(parameters(), "env"), name) {
			field = name
		}
		break
	}
	return fault.Invalid(fault.Detail{
		Field: field, Code: fault.InvalidFormat, Message: "is not a well-formed query string",
		Constraint: map[string]any{"format": "percent-encoding"},
	})
}

var errNoKey = fault.New(fault.Unauthenticated, "An organization key is required. Send it in X-API-Key, as a Bearer token, in ?token= or in ?env=.")

func headerKey(h http.Header) session.OrganizationKey {
	return session.NewOrganizationKey(cmp.Or(h.Get(keyHeader), oapi.BearerToken(h)))
}

// checkParameters refuses unknown and repeated parameters, and the others beside env.
func checkParameters(query url.Values, known []string) (details []fault.Detail) {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case !slices.Contains(known, name) && slices.Contains(parameters(), name):
			details = append(details, conflict(name, "env"))
		case !slices.Contains(known, name):
			details = append(details, fault.Detail{Field: name, Code: fault.UnrecognizedKey, Message: "is not a known parameter"})
		case len(query[name]) > 1:
			details = append(details, fault.Detail{Field: name, Code: fault.Custom, Message: "is given more than once"})
		}
	}
	return details
}

func conflict(name, other string) fault.Detail {
	return fault.Detail{Field: name, Code: fault.Custom, Message: "must not be given together with " + other}
}

// readEnv reads the launch from env, JSON or base64url of JSON, and returns its key.
// Errors never repeat the input.
func (a *launchRequest) readEnv(env string) (key session.OrganizationKey, err error) {
	text := []byte(strings.TrimSpace(env))
	if !bytes.HasPrefix(text, []byte("{")) {
		if text, err = base64.RawURLEncoding.DecodeString(strings.TrimRight(string(text), "=")); err != nil {
			return key, fault.Invalid(fault.Detail{Field: "env", Code: fault.InvalidFormat, Message: "must be JSON or base64url-encoded JSON"})
		}
	}
	var secret string
	if a.body, secret, err = extractKey(text); err != nil {
		return key, fault.Invalid(fault.Detail{Field: "env", Code: fault.InvalidFormat, Message: err.Error()})
	}
	return session.NewOrganizationKey(secret), nil
}

const envKey = "SVC_KEY"

var (
	errNotObject = errors.New("must be a JSON object")
	errKeyType   = errors.New(envKey + " must be a string")
	errKeyTwice  = errors.New(envKey + " is given more than once")
)

// extractKey removes SVC_KEY from a JSON object. The rest stays unchanged, so that
// validation also finds duplicate members.
func extractKey(text []byte) (rest []byte, key string, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return nil, "", errNotObject
	}
	out := bytes.NewBufferString("{")
	found := false
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, "", errNotObject
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, "", errNotObject
		}
		if name == envKey {
			if found {
				return nil, "", errKeyTwice
			}
			if found = true; json.Unmarshal(value, &key) != nil {
				return nil, "", errKeyType
			}
			continue
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, "", fmt.Errorf("encode a name: %w", err)
		}
		out.Write(append(append(quoted, ':'), value...))
	}
	if _, err := decoder.Token(); err != nil {
		return nil, "", errNotObject
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, "", errNotObject
	}
	out.WriteByte('}')
	return out.Bytes(), key, nil
}
