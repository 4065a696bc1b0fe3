package storagestate

import (
	"context"
	"errors"
	"fmt"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

// Write adds the cookies to the default browser context and replaces the localStorage
// and the named databases of the origins. It opens a blank tab for a moment. The
// cookies of the state replace those with the same name, domain and path. Errors:
// Validation for a value that the browser refuses; prefix is that of the field names.
func (s *State) Write(ctx context.Context, conn *cdp.Conn, prefix string) error {
	if err := writeCookies(ctx, conn, s.Cookies, prefix); err != nil {
		return err
	}
	if len(s.Origins) == 0 {
		return nil
	}
	blank, err := openBlankPage(ctx, conn)
	if err != nil {
		return err
	}
	defer blank.close()
	for i, origin := range s.Origins {
		f, err := blank.open(ctx, origin.Origin)
		if err != nil {
			return err
		}
		err = f.call(ctx, conn, "write", nil, origin)
		if failed, ok := errors.AsType[*scriptError](err); ok {
			return fault.Wrap(err, fault.Validation, "The storage state cannot be restored.", fault.Detail{
				Field: fmt.Sprintf("%sorigins[%d]", prefix, i), Code: fault.Custom, Message: "is refused by the browser: " + failed.firstLine(),
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
