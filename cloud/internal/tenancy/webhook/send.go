package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// target is an endpoint to which a replica sends.
type target struct {
	row
	signers []*standardwebhooks.Webhook
}

// newTarget decrypts the secrets of an endpoint.
func (s *Service) newTarget(r row) (target, error) {
	t := target{row: r}
	sealed := [][]byte{r.Secret}
	if r.OldSecretUntil != nil && r.OldSecretUntil.After(s.Clock.Now()) {
		sealed = append(sealed, r.OldSecret)
	}
	for _, each := range sealed {
		secret, err := r.open(s.Sealer, each)
		if err != nil {
			return t, err
		}
		signer, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return t, fmt.Errorf("read the secret of an endpoint: %w", err)
		}
		t.signers = append(t.signers, signer)
	}
	return t, nil
}

// result is the result of an attempt. Its status is 0 if there was no response.
type result struct {
	status   int
	duration time.Duration
	err      error // nil if the event was delivered
}

// send sends an event once.
func (s *Service) send(ctx context.Context, t target, e Event) result {
	ctx, cancel := context.WithTimeout(ctx, s.Options.withDefaults().Timeout)
	defer cancel()
	body, err := json.Marshal(e)
	if err != nil {
		return result{err: err}
	}
	now := time.Now()
	signatures := make([]string, len(t.signers))
	for i, signer := range t.signers {
		if signatures[i], err = signer.Sign(e.ID.String(), now, body); err != nil {
			return result{err: err}
		}
	}
	r := result{}
	r.status, r.err = s.Sender.Post(ctx, t.URL, map[string]string{
		"User-Agent":                            s.UserAgent,
		standardwebhooks.HeaderWebhookID:        e.ID.String(),
		standardwebhooks.HeaderWebhookTimestamp: strconv.FormatInt(now.Unix(), 10),
		standardwebhooks.HeaderWebhookSignature: strings.Join(signatures, " "),
	}, body)
	r.duration = time.Since(now)
	if r.err == nil && (r.status < 200 || r.status > 299) {
		r.err = fmt.Errorf("the response has status %d", r.status)
	}
	return r
}
