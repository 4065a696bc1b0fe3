package rest_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/cloudapi"
)

var (
	letter    = map[string]any{"name": "Ada", "email": "ada@example.com", "message": "Hello\nthere"}
	loopbacks = netip.MustParsePrefix("127.0.0.0/8")
)

// forwarded returns an anonymous credential with this X-Forwarded-For header.
func forwarded(address string) credential { return credential{"X-Forwarded-For": address} }

func TestContact_AcceptsAnonymousMessage(t *testing.T) {
	a := newOperationsAPI(t)
	r := a.do("POST", "/v1/contact", nil, map[string]any{"name": "Ada", "email": "ada@example.com", "company": "Engines", "subject": "Prices", "message": "Hello"})
	receipt := decode[cloudapi.ContactMessage](t, r, 201)
	if r.header.Get("Location") != "/v1/contact/"+receipt.Id.String() || time.Since(receipt.CreatedAt).Abs() > time.Minute {
		t.Errorf("location %q, %+v", r.header.Get("Location"), receipt)
	}
	var kept string
	must(t, a.db.Get(&kept, `SELECT concat_ws('|', id, name, email, company, subject, message, network) FROM contact_messages`))
	if want := receipt.Id.String() + "|Ada|ada@example.com|Engines|Prices|Hello|127.0.0.1/32"; kept != want {
		t.Errorf("stored %s, want %s", kept, want)
	}
}

func TestContact_RefusesInvalidMessage(t *testing.T) {
	a := newOperationsAPI(t)
	long := strings.Repeat("x", 10001)
	r := a.wrong("POST", "/v1/contact", nil, map[string]any{"name": " ", "email": "ada", "company": "a\nb", "subject": "", "message": long, "phone": "1"})
	r.want(t, 400, "VALIDATION_ERROR")
	want := []string{"company INVALID_PATTERN", "email INVALID_FORMAT", "message TOO_LONG", "name INVALID_PATTERN", "phone UNRECOGNIZED_KEY", "subject TOO_SHORT"}
	if diff := cmp.Diff(want, sorted(r.fields)); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	a.wrong("POST", "/v1/contact", nil, map[string]any{}).want(t, 400, "VALIDATION_ERROR")
	a.do("POST", "/v1/contact", credential{"Sec-Fetch-Site": "cross-site"}, letter).want(t, 403, "AUTHORIZATION_ERROR")
	for range 5 { // refused messages are not counted
		a.do("POST", "/v1/contact", nil, letter).want(t, 201, "")
	}
}

func TestContact_LimitsMessagesPerAddress(t *testing.T) {
	a := newOperationsAPI(t)
	for n := range 5 {
		// X-Forwarded-For is trusted only from trusted proxies.
		a.do("POST", "/v1/contact", forwarded(fmt.Sprintf("203.0.113.%d", n)).with("X-Real-Ip", fmt.Sprintf("198.51.100.%d", n)), letter).want(t, 201, "")
	}
	r := a.do("POST", "/v1/contact", forwarded("203.0.113.99").with("Forwarded", "for=203.0.113.99"), letter)
	r.want(t, 429, "RATE_LIMIT_EXCEEDED")
	if seconds, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || seconds < 3500 || seconds > 3600 {
		t.Errorf("Retry-After %q, want nearly an hour", r.header.Get("Retry-After"))
	}
	a.db.MustExec(`UPDATE contact_messages SET created_at = created_at - interval '1 hour'`)
	a.do("POST", "/v1/contact", nil, letter).want(t, 201, "")
}

func TestContact_UsesForwardedAddressFromTrustedProxy(t *testing.T) {
	a := newOperationsAPI(t, loopbacks)
	for range 5 {
		a.do("POST", "/v1/contact", forwarded("203.0.113.7"), letter).want(t, 201, "")
	}
	for address, status := range map[string]int{
		"203.0.113.7": 429, "1.2.3.4, 203.0.113.7": 429, "203.0.113.7, 203.0.113.8": 201, // only the last address was added by the proxy
		"::ffff:203.0.113.7": 429, "203.0.113.9": 201,
	} {
		if r := a.do("POST", "/v1/contact", forwarded(address), letter); r.status != status {
			t.Errorf("X-Forwarded-For %s: %d, want %d", address, r.status, status)
		}
	}
	for n := range 5 {
		a.do("POST", "/v1/contact", forwarded(fmt.Sprintf("2001:db8:0:1::%d", n+1)), letter).want(t, 201, "")
	}
	a.do("POST", "/v1/contact", forwarded("2001:db8:0:1:ffff::1"), letter).want(t, 429, "RATE_LIMIT_EXCEEDED")
	a.do("POST", "/v1/contact", forwarded("2001:db8:0:2::1"), letter).want(t, 201, "")
}

func TestContact_LimitIsExactConcurrently(t *testing.T) {
	a := newOperationsAPI(t)
	var successes, refusals atomic.Int64
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			switch r := a.do("POST", "/v1/contact", nil, letter); r.status {
			case 201:
				successes.Add(1)
			case 429:
				refusals.Add(1)
			default:
				t.Errorf("%d: %s", r.status, r.body)
			}
		})
	}
	all.Wait()
	if successes.Load() != 5 || refusals.Load() != 27 {
		t.Errorf("accepted %d and refused %d of 32, want 5 accepted", successes.Load(), refusals.Load())
	}
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
