package ticket

import (
	"crypto/rand"
	"time"
)

// maxSpent is how many tokens of one launch are remembered as spent.
const maxSpent = 1024

// launchTokens is what is kept of a launch while it runs.
type launchTokens struct {
	began   time.Time
	control issuedToken // the launch's control token, once it was asked for
	page    issuedToken // what addresses of pages carry once own is spent

	spent       map[string]Claims // tokens that have opened a page, by id
	spentBefore time.Time         // tokens issued then or earlier count as spent; zero for none
}

// issuedToken is a token with what it says.
type issuedToken struct {
	Claims
	token string
}

// Begin keeps the tokens of a launch from now on, until End: its control token
// lasts 12 hours from here.
func (t *Tickets) Begin(launchID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.launches[launchID] = &launchTokens{began: t.now(), spent: map[string]Claims{}}
}

// End forgets the tokens of a launch that is over.
func (t *Tickets) End(launchID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.launches, launchID)
}

// LaunchToken returns the control token of a launch and when it expires: the same
// each time, and another one only when it has expired (specification 5.5.1). For
// a launch that is over it is a new one each time.
func (t *Tickets) LaunchToken(launchID string) (token string, expires time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own, err := t.controlToken(launchID)
	return own.token, own.Expires, err
}

// PageToken returns a control token of a launch for the address of a page: that of
// LaunchToken as long as it has opened none, and then another, which is the same
// each time until it has opened a page. It expires no later than that of
// LaunchToken, and than until, unless that is zero.
func (t *Tickets) PageToken(launchID string, until time.Time) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own, err := t.controlToken(launchID)
	if err != nil {
		return "", err
	}
	if until.IsZero() || own.Expires.Before(until) {
		until = own.Expires
	}
	l := t.launches[launchID]
	if l == nil { // it is over
		l = &launchTokens{}
	}
	for _, one := range []issuedToken{own, l.page} {
		if t.clock.Now().Before(one.Expires) && !one.Expires.After(until) && !l.isSpent(one.Claims) {
			return one.token, nil
		}
	}
	l.page, err = t.issue(launchID, t.now(), until)
	return l.page.token, err
}

// IsSpent reports whether a token of a launch has opened a page already, from
// an address. So do all tokens of a launch that is over.
func (t *Tickets) IsSpent(launchID string, c Claims) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.launches[launchID]
	return l == nil || l.isSpent(c)
}

// Spend takes a token of a launch for the one time that it opens a page from an
// address; false when it has done so. Of several calls at a time one gets true.
func (t *Tickets) Spend(launchID string, c Claims) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.launches[launchID]
	if l == nil || l.isSpent(c) {
		return false
	}
	l.spend(c, t.clock.Now())
	return true
}

// controlToken is the launch's own token. The caller holds the lock.
func (t *Tickets) controlToken(launchID string) (issuedToken, error) {
	l := t.launches[launchID]
	if l == nil {
		return t.issue(launchID, t.now(), t.now().Add(ControlTTL))
	}
	if l.control.token != "" && t.clock.Now().Before(l.control.Expires) {
		return l.control, nil
	}
	issuedAt := l.began
	if !t.clock.Now().Before(issuedAt.Add(ControlTTL)) {
		issuedAt = t.now()
	}
	var err error
	l.control, err = t.issue(launchID, issuedAt, issuedAt.Add(ControlTTL))
	return l.control, err
}

func (t *Tickets) issue(launchID string, issuedAt, expires time.Time) (issuedToken, error) {
	c := Claims{ID: rand.Text(), IssuedAt: issuedAt, Expires: expires}
	token, err := t.sign(launchID, Control, c)
	if err != nil {
		return issuedToken{}, err
	}
	return issuedToken{c, token}, nil
}

func (l *launchTokens) isSpent(c Claims) bool {
	_, spent := l.spent[c.ID]
	return spent || !c.IssuedAt.After(l.spentBefore) && !l.spentBefore.IsZero()
}

// spend remembers a token. What has expired is forgotten; and where there are
// too many, the oldest, with all that were issued before it, so that none opens
// a second page.
func (l *launchTokens) spend(c Claims, now time.Time) {
	for id, old := range l.spent {
		if !now.Before(old.Expires) {
			delete(l.spent, id)
		}
	}
	l.spent[c.ID] = c
	if len(l.spent) <= maxSpent {
		return
	}
	oldest := c
	for _, one := range l.spent {
		if one.IssuedAt.Before(oldest.IssuedAt) {
			oldest = one
		}
	}
	l.spentBefore = oldest.IssuedAt
	for id, one := range l.spent {
		if !one.IssuedAt.After(l.spentBefore) {
			delete(l.spent, id)
		}
	}
}
