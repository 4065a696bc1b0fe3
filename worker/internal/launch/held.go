package launch

import (
	"fmt"

	"github.com/browser-svc/svc/worker/internal/browser"
)

// held is what a launch holds until its end.
type held struct {
	giveBack func() // a kept data directory; nil for none
	way      Way    // to a proxy that wants credentials; nil for none
}

// furnish gives a launch what is held for it until its end: the directory of a
// profile that keeps its data, and a way to a proxy that wants credentials.
func (s *Service) furnish(spec *browser.Spec, profile Profile, proxy *Proxy) (held, error) {
	var h held
	var err error
	if profile.Persist {
		if spec.UserDataDir, h.giveBack, err = s.Data.Claim(profile.ID); err != nil {
			return held{}, err
		}
	}
	if proxy == nil {
		return h, nil
	}
	spec.Proxy = &browser.Proxy{Server: proxy.Server, Bypass: proxy.Bypass}
	if proxy.Username == "" && proxy.Password == "" {
		return h, nil
	}
	if h.way, err = s.Forward(*proxy); err != nil {
		h.way = nil
		h.release()
		return held{}, fmt.Errorf("start the way to the proxy: %w", err)
	}
	spec.Proxy.Server = h.way.Address()
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
