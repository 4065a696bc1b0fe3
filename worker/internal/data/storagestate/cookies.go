package storagestate

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

// wireCookie is a cookie of CDP, as it is read and written.
type wireCookie struct {
	Name         string        `json:"name"`
	Value        string        `json:"value"`
	Domain       string        `json:"domain"`
	Path         string        `json:"path"`
	Expires      float64       `json:"expires,omitempty"`
	HTTPOnly     bool          `json:"httpOnly"`
	Secure       bool          `json:"secure"`
	SameSite     string        `json:"sameSite,omitempty"`
	PartitionKey *partitionKey `json:"partitionKey,omitempty"`
}

type partitionKey struct {
	TopLevelSite         string `json:"topLevelSite"`
	HasCrossSiteAncestor bool   `json:"hasCrossSiteAncestor"`
}

func readCookies(ctx context.Context, conn *cdp.Conn) ([]Cookie, error) {
	var found struct{ Cookies []wireCookie }
	if err := conn.Call(ctx, "", "Storage.getCookies", nil, &found); err != nil {
		return nil, err
	}
	cookies := []Cookie{}
	for _, c := range found.Cookies {
		cookie := Cookie{
			Name: c.Name, Value: c.Value, Domain: c.Domain, Path: c.Path, Expires: c.Expires, HTTPOnly: c.HTTPOnly, Secure: c.Secure,
			SameSite: cmp.Or(c.SameSite, "Lax"), // as Playwright; Chromium treats both the same
		}
		if c.PartitionKey != nil {
			cookie.PartitionKey = c.PartitionKey.TopLevelSite
		}
		cookies = append(cookies, cookie)
	}
	return cookies, nil
}

func (c Cookie) wire() wireCookie {
	w := wireCookie{
		Name: c.Name, Value: c.Value, Domain: c.Domain, Path: c.Path, Expires: max(c.Expires, 0), HTTPOnly: c.HTTPOnly, Secure: c.Secure, SameSite: c.SameSite,
	}
	if c.PartitionKey != "" {
		w.PartitionKey = &partitionKey{TopLevelSite: c.PartitionKey, HasCrossSiteAncestor: true}
	}
	return w
}

// writeCookies sets the cookies. If Chromium refuses some, the error names each.
func writeCookies(ctx context.Context, conn *cdp.Conn, cookies []Cookie, prefix string) error {
	if len(cookies) == 0 {
		return nil
	}
	all := make([]wireCookie, len(cookies))
	for i, c := range cookies {
		all[i] = c.wire()
	}
	err := setCookies(ctx, conn, all...)
	if _, refused := errors.AsType[*cdp.Error](err); !refused {
		return err
	}
	var details []fault.Detail
	for i, c := range all { // Chromium does not say which one
		failure := setCookies(ctx, conn, c)
		if refusal, ok := errors.AsType[*cdp.Error](failure); ok {
			details = append(details, fault.Detail{
				Field: fmt.Sprintf("%scookies[%d]", prefix, i), Code: fault.Custom, Message: "is refused by the browser: " + refusal.Message,
			})
		} else if failure != nil {
			return failure
		}
	}
	if len(details) == 0 {
		return err
	}
	return fault.Invalid(details...)
}

func setCookies(ctx context.Context, conn *cdp.Conn, cookies ...wireCookie) error {
	return conn.Call(ctx, "", "Storage.setCookies", object{"cookies": cookies}, nil)
}
