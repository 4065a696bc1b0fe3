package ticket

import (
	"crypto/rand"
	"time"
)

// maxSpent is how many spent tokens of one launch are remembered.
const maxSpent = 1024

// Page is a kind of page. A token opens each kind once.
type Page string

// The kinds of pages.
const (
	LivePage    Page = "view" // the live view
	BrowserPage Page = "page" // the page of the browser, and DevTools
)

// launchTokens is the token state of a running launch.
type launchTokens struct {
	began   time.Time
	control issuedToken          // the launch's control token, issued on demand
	pages   map[Page]issuedToken // the tokens for URLs of pages once control is spent

	spent       map[spentToken]Claims // tokens that have opened a page
	spentBefore time.Time             // tokens issued then or earlier count as spent; zero for none
}

// spentToken is the id of a token that has opened a page.
type spentToken struct {
	id   string
	page Page
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
	t.launches[launchID] = &launchTokens{began: t.now(), pages: map[Page]issuedToken{}, spent: map[spentToken]Claims{}}
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
// is spent there, then another token, which stays the same until it is spent. It expires
// no later than the launch token and, unless until is zero, no later than until.
func (t *Tickets) PageToken(launchID string, page Page, until time.Time) (string, error) {
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
		l = &launchTokens{pages: map[Page]issuedToken{}}
	}
	for _, candidate := range []issuedToken{own, l.pages[page]} {
		if t.clock.Now().Before(candidate.Expires) && !candidate.Expires.After(until) && !l.isSpent(candidate.Claims, page) {
			return candidate.token, nil
		}
	}
	fresh, err := t.issue(launchID, t.now(), until)
	l.pages[page] = fresh
	return fresh.token, err
}

// IsSpent reports whether a token of a launch has already opened a page of this kind. All
// tokens of an ended launch are spent.
func (t *Tickets) IsSpent(launchID string, c Claims, page Page) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.launches[launchID]
	return l == nil || l.isSpent(c, page)
}

// Spend spends a token of a launch for a kind of page. It returns false if the token was
// already spent for it. Only one of several concurrent calls returns true.
func (t *Tickets) Spend(launchID string, c Claims, page Page) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.launches[launchID]
	if l == nil || l.isSpent(c, page) {
		return false
	}
	l.spend(c, page, t.clock.Now())
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

func (l *launchTokens) isSpent(c Claims, page Page) bool {
	_, spent := l.spent[spentToken{c.ID, page}]
	return spent || !c.IssuedAt.After(l.spentBefore) && !l.spentBefore.IsZero()
}

// spend remembers a token. Expired tokens are dropped. If there are too many, the
// oldest is dropped, and all tokens issued before it count as spent, so that no
// token opens a second page.
func (l *launchTokens) spend(c Claims, page Page, now time.Time) {
	for id, old := range l.spent {
		if !now.Before(old.Expires) {
			delete(l.spent, id)
		}
	}
	l.spent[spentToken{c.ID, page}] = c
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
