package webdriver

import (
	"net/http"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/worker/internal/session"
)

const keyHeader = "X-API-Key"

var errNoKey = fault.New(fault.Unauthenticated,
	"A worker key or an organization key is required. Send it in X-API-Key, as a Bearer token, as the password of Basic authentication or in svc:options.token.")

// requestKey returns the key of a request for a session. Keys at several places must be
// the same.
func requestKey(r *http.Request, token string) (string, error) {
	keys := []string{r.Header.Get(keyHeader), token, oapi.BearerToken(r.Header)}
	if user, password, ok := r.BasicAuth(); ok {
		if password == "" {
			password = user
		}
		keys = append(keys, password)
	}
	key := ""
	for _, other := range keys {
		switch {
		case other == "":
		case key == "":
			key = other
		case !session.NewOrganizationKey(key).Equal(session.NewOrganizationKey(other)):
			return "", fault.Field(ownOptions+".token", "must be the key of the header, or one of them must be omitted")
		}
	}
	if key == "" {
		return "", errNoKey
	}
	return key, nil
}
