package stripe_test

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85/webhook"

	"github.com/browser-svc/svc/cloud/internal/tenancy/billing/stripe"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing/stripetest"
	"github.com/browser-svc/svc/shared/fault"
)

// FuzzEvent: an event is accepted if its header has exactly one time, within the last
// five minutes, and a signature of the body at that time. In the header, {now}, {old}
// and {soon} are times, and {s:now}, {s:old}, {s:soon} and {foreign} are signatures.
func FuzzEvent(f *testing.F) {
	const payload = `{"object":"event","id":"evt_1","type":"customer.subscription.updated","data":{"object":{"id":"sub_1"}}}`
	for _, header := range []string{
		"t={now},v1={s:now}", "t={now},v1=00,v1={s:now},v0=x", "v1={s:now},t={now}", "t={old},v1={s:old}", "t={now},v1={s:old}", "t={now},v1={foreign}", "t={old},t={now},v1={s:now}",
		"t={now},v0={s:now}", "t={now}", "", "v1={s:now}", "t={now},v1=", "t=x,v1={s:now}", "t={soon},v1={s:soon}", "t={now}=1,v1={s:now}", "t={now}, v1={s:now}", "t={now},v1={s:now}00",
	} {
		f.Add(payload, header)
	}
	f.Add(`{"object":"event","id":"evt_1","type":"invoice.paid","data":{"object":{"id":5}}}`, "t={now},v1={s:now}")
	f.Add(`{"object":"event","id":"","data":null}`, "t={now},v1={s:now}")
	f.Add(`{"object":"event","id":"","data":{"object":{}}}`, "t={now},v1={s:now}")
	f.Add(`[`, "t={now},v1={s:now}")
	provider, err := stripe.New(stripe.Config{SecretKey: "sk_test", WebhookSecret: stripetest.WebhookSecret})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, payload, header string) {
		now := time.Now()
		times := map[string]time.Time{"now": now, "old": now.Add(-6 * time.Minute), "soon": now.Add(time.Minute)}
		var pairs []string
		for name, moment := range times {
			pairs = append(pairs, "{"+name+"}", strconv.FormatInt(moment.Unix(), 10), "{s:"+name+"}", hex.EncodeToString(webhook.ComputeSignature(moment, []byte(payload), stripetest.WebhookSecret)))
		}
		pairs = append(pairs, "{foreign}", hex.EncodeToString(webhook.ComputeSignature(now, []byte(payload), "whsec_other")))
		header = strings.NewReplacer(pairs...).Replace(header)
		event, err := provider.Event([]byte(payload), header)
		if believed := isSigned(payload, header, now); believed == fault.Is(err, fault.Unauthenticated) {
			t.Errorf("%q with %q: %v", payload, header, err)
		}
		var plain struct {
			ID   string
			Data *struct{ Object map[string]any }
		}
		if err == nil && (event.ID == "" || json.Unmarshal([]byte(payload), &plain) != nil || plain.ID != event.ID || plain.Data == nil) {
			t.Errorf("%q was read as %+v", payload, event)
		}
		if err != nil && !fault.Is(err, fault.Unauthenticated) && !fault.Is(err, fault.Validation) {
			t.Errorf("%q: %v", payload, err)
		}
	})
}

// isSigned parses the header as Stripe documents it: comma-separated pairs, of which
// the last time counts.
func isSigned(payload, header string, now time.Time) bool {
	var signedAt time.Time
	var signatures []string
	for pair := range strings.SplitSeq(header, ",") {
		name, value, found := strings.Cut(pair, "=")
		if !found || strings.Contains(value, "=") {
			return false
		}
		switch name {
		case "t":
			seconds, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return false
			}
			signedAt = time.Unix(seconds, 0)
		case "v1":
			signatures = append(signatures, value)
		}
	}
	if signedAt.IsZero() || now.Sub(signedAt) > 5*time.Minute {
		return false
	}
	for _, s := range signatures {
		if strings.EqualFold(s, hex.EncodeToString(webhook.ComputeSignature(signedAt, []byte(payload), stripetest.WebhookSecret))) {
			return true
		}
	}
	return false
}
