package launch

import (
	"context"

	"github.com/browser-svc/svc/worker/internal/browser"
)

// held is what a launch holds until its end.
type held struct {
	giveBack func() // a kept data directory; nil for none
	way      Way    // to a proxy; nil for none
}

// furnish gives a launch what is held for it until its end: the directory of a
// profile that keeps its data, and a way to its proxy, unless h has one already.
// After an error nothing is held.
func (s *Service) furnish(ctx context.Context, h held, spec *browser.Spec, profile Profile, proxy *Proxy, field string) (_ held, err error) {
	defer func() {
		if err != nil {
			h.release()
		}
	}()
	if profile.Persist {
		if spec.UserDataDir, h.giveBack, err = s.Data.Claim(profile.ID); err != nil {
			return held{}, err
		}
	}
	if proxy == nil {
		return h, nil
	}
	if h.way == nil {
		if h.way, err = s.open(ctx, proxy, field); err != nil {
			return held{}, err
		}
	}
	spec.Proxy = &browser.Proxy{Server: h.way.Address(), Bypass: proxy.Bypass}
	return h, nil
}

// restrict keeps the way for the browser's own user: whoever else took it
// would use the proxy's credentials.
func (h held) restrict(uid int) {
	if h.way != nil {
		h.way.Restrict(uid)
	}
}

func (h held) release() {
	if h.way != nil {
		h.way.Close()
	}
	if h.giveBack != nil {
		h.giveBack()
	}
}
