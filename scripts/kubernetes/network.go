package main

import (
	"context"
	"errors"
	"time"
)

// network limits what browsers reach: to the page, to other pods, and not at all.
func network(ctx context.Context, p *proof) error {
	const peer = "networkPolicy.workerEgress[0].to[0].podSelector.matchLabels.app="
	for _, c := range []struct {
		args  []string
		opens bool
	}{
		{[]string{"--set", peer + "page"}, true},
		{[]string{"--set", peer + "other"}, false},
		{nil, true},
	} {
		if err := p.upgrade(ctx, c.args...); err != nil {
			return err
		}
		if err := retry(ctx, 3*time.Minute, "the network policy", func(ctx context.Context) error {
			s, err := p.fleet.launch(ctx) // needs the DNS and the cloud
			if err != nil {
				return err
			}
			opened := p.fleet.open(ctx, s, pageURL, p.pki("ca.crt"))
			if err := p.fleet.end(ctx, s); err != nil {
				return err
			}
			if c.opens {
				return opened
			}
			if opened == nil {
				return errors.New("the page opened")
			}
			return nil
		}); err != nil {
			return err
		}
		logf("helm upgrade %v: browsers launch; the page opens: %t", c.args, c.opens)
	}
	return nil
}
