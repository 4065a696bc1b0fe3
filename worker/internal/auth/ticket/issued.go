package ticket

import (
	"crypto/rand"
	"time"
)

// maxSpent is how many spent tokens of one launch are remembered.
const maxSpent = 1024

// launchTokens is the token state of a running launch.
type launchTokens struct {
	began   time.Time
	control issuedToken // the launch's control token, issued on demand
	page    issuedToken // the token for URLs of pages once control is spent

	spent       map[string]Claims // tokens that have opened a page, by id
	spentBefore time.Time         // tokens issued then or earlier count as spent; zero for none
}

// issuedToken is a token with its claims.
type issuedToken struct {
	Claims
	token string
}

// Begin starts the token state of a launch. Its control token expires 12 hours
// later.
func (t *Tickets) Begin(launchID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.launches[launchID] = &launchTokens{began: t.now(), spent: map[string]Claims{}}
}

// End removes the token state of a launch that has ended.
func (t *Tickets) End(launchID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.launches, launchID)
}

// LaunchToken returns the control token of a launch and its expiry. It stays the
// same until it expires (specification 5.5.1). For a launch that has ended it is a
// new token each time.
func (t *Tickets) LaunchToken(launchID string) (token string, expires time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own, err := t.controlToken(launchID)
	return own.token, own.Expires, err
}

// PageToken returns a control token for the URL of a page: the launch token until it
// is spent, then another token, which stays the same until it is spent. It expires
// no later than the launch token and, unless until is zero, no later than until.
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
	if l == nil { // the launch has ended
		l = &launchTokens{}
	}
	for _, candidate := range []issuedToken{own, l.page} {
		if t.clock.Now().Before(candidate.Expires) && !candidate.Expires.After(until) && !l.isSpent(candidate.Claims) {
			return candidate.token, nil
		}
	}
	l.page, err = t.issue(launchID, t.now(), until)
	return l.page.token, err
}

// IsSpent reports whether a token of a launch has already opened a page. All tokens
// of an ended launch are spent.
func (t *Tickets) IsSpent(launchID string, c Claims) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.launches[launchID]
	return l == nil || l.isSpent(c)
}

// Spend spends a token of a launch. It returns false if the token was already spent.
// Only one of several concurrent calls returns true.
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

// controlToken returns the launch's control token. The caller holds the lock.
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

// spend remembers a token. Expired tokens are dropped. If there are too many, the
// oldest is dropped, and all tokens issued before it count as spent, so that no
// token opens a second page.
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
	for _, claims := range l.spent {
		if claims.IssuedAt.Before(oldest.IssuedAt) {
			oldest = claims
		}
	}
	l.spentBefore = oldest.IssuedAt
	for id, claims := range l.spent {
		if !claims.IssuedAt.After(l.spentBefore) {
			delete(l.spent, id)
		}
	}
}
