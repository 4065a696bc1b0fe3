package profiledata_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

func (r *remoteFixture) collector(i profiledata.Index) (*profiledata.Collector, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	return &profiledata.Collector{
		Store: r.Store, Index: i, Metrics: profiledata.NewMetrics(registry), Logger: slog.New(slog.NewTextHandler(r.log, nil)),
	}, registry
}

// collections returns how many garbage collections a metric counts.
func collections(t *testing.T, registry *prometheus.Registry, result string) int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if len(m.GetLabel()) > 0 && m.GetLabel()[0].GetValue() == result {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	t.Fatalf("no metric has the result %s", result)
	return 0
}

// TestCollector_CollectsOnceADay runs two workers' collectors on one store.
func TestCollector_CollectsOnceADay(t *testing.T) {
	r := newRemote(t)
	first, counted := r.collector(index{r})
	other, countedToo := r.collector(index{r})
	first.CollectIfDue(t.Context()) // an empty store
	r.save(t, large(1))
	r.save(t, large(2))
	left := r.objects(t)
	r.versions = r.versions[1:]
	for _, path := range left {
		if err := os.Chtimes(path, longAgo, longAgo); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		first.CollectIfDue(t.Context())
		other.CollectIfDue(t.Context())
	}
	assertCollections(t, counted, 1, 0)
	assertCollections(t, countedToo, 0, 0)
	if after := r.objects(t); len(after) >= len(left) {
		t.Errorf("%d objects became %d", len(left), len(after))
	}
	if !strings.Contains(r.log.String(), "unused profile data deleted") {
		t.Errorf("got log\n%s", r.log)
	}
	assertTree(t, r.restored(t), large(2))
	r.clock.Advance(25 * time.Hour)
	other.CollectIfDue(t.Context())
	assertCollections(t, countedToo, 1, 0)
}

func assertCollections(t *testing.T, registry *prometheus.Registry, success, failure int) {
	t.Helper()
	for result, want := range map[string]int{"success": success, "failure": failure} {
		if got := collections(t, registry, result); got != want {
			t.Errorf("%d collections with %s, want %d", got, result, want)
		}
	}
}

// brokenIndex does not know the versions.
type brokenIndex struct{ index }

func (brokenIndex) Versions(context.Context, uuid.UUID) ([]uuid.UUID, error) {
	return nil, errors.New("the cloud does not answer")
}

func TestCollector_DeletesNothingWithoutCloud(t *testing.T) {
	r := newRemote(t)
	r.save(t, large(1))
	c, counted := r.collector(brokenIndex{index{r}})
	for _, path := range r.objects(t) {
		if err := os.Chtimes(path, longAgo, longAgo); err != nil {
			t.Fatal(err)
		}
	}
	c.CollectIfDue(t.Context())
	assertCollections(t, counted, 0, 1)
	if !strings.Contains(r.log.String(), "the cloud does not answer") {
		t.Errorf("got log\n%s", r.log)
	}
	assertTree(t, r.restored(t), large(1))
}

func TestCollector_RunsAtRandomTimeWithinAnHour(t *testing.T) {
	r := newRemote(t)
	r.save(t, large(1))
	c, counted := r.collector(index{r})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 61*time.Minute)
		defer cancel()
		c.Run(ctx)
	})
	assertCollections(t, counted, 1, 0)
}
