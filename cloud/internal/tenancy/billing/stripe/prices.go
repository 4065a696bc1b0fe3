package stripe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	api "github.com/stripe/stripe-go/v85"

	"github.com/browser-svc/svc/shared/fault"
)

// The names of prices.
const (
	keyPrefix   = "svc:"
	metadataKey = "svc"
)

// lookupBatch is how many lookup keys Stripe takes in one request.
const lookupBatch = 10

func planKey(plan string) string         { return keyPrefix + plan }
func addOnKey(plan, addOn string) string { return keyPrefix + plan + ":" + addOn }

// parseKey returns the plan, or the plan and add-on, that a price is for; both
// are empty for foreign prices.
func parseKey(price *api.Price) (plan, addOn string) {
	if price == nil {
		return "", ""
	}
	key := price.LookupKey
	if !strings.HasPrefix(key, keyPrefix) {
		key = price.Metadata[metadataKey]
	}
	rest, ours := strings.CutPrefix(key, keyPrefix)
	if !ours {
		return "", ""
	}
	plan, addOn, _ = strings.Cut(rest, ":")
	return plan, addOn
}

// prices returns the IDs of the prices with these lookup keys.
func (p *Provider) prices(ctx context.Context, keys ...string) (map[string]string, error) {
	found := map[string]string{}
	for some := range slices.Chunk(keys, lookupBatch) {
		params := &api.PriceListParams{Active: new(true), LookupKeys: api.StringSlice(some)}
		for price, err := range p.client.V1Prices.List(ctx, params).All(ctx) {
			if err != nil {
				return nil, providerError("find prices", err)
			}
			found[price.LookupKey] = price.ID
		}
	}
	for _, key := range keys {
		if found[key] == "" {
			return nil, fault.Wrap(fmt.Errorf("no active Stripe price with the lookup key %q", key),
				fault.BadGateway, "The payment provider has no price for this.")
		}
	}
	return found, nil
}
