package cloud_test

import (
	"log/slog"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/cloud"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

var machine = cloud.Machine{ID: "worker-1", BootID: uuid.Must(uuid.NewV7())}

func newClient(t *testing.T, address, key string) *cloud.Client {
	t.Helper()
	client, err := cloud.New(address, key, machine, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func newFakeCloud(t *testing.T) (*cloudtest.Cloud, *cloud.Client) {
	t.Helper()
	fake := cloudtest.New(t)
	return fake, newClient(t, fake.URL, cloudtest.Key)
}

// assertFault checks the kind and message of a fault and returns the fault.
func assertFault(t *testing.T, err error, kind fault.Kind, message string) *fault.Error {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	got := fault.From(err)
	if got.Kind != kind || got.Message != message {
		t.Errorf("got %v %q (%v); want %v %q", got.Kind.Status(), got.Message, err, kind.Status(), message)
	}
	return got
}
