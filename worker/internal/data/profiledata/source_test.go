package profiledata_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
)

func TestSource_BecomesFirstRemoteVersion(t *testing.T) {
	local, remote := newFixture(t), newRemote(t)
	local.save(t, sampleTree(1))
	restored := func(readOnly bool) tree {
		t.Helper()
		use := remote.use()
		var err error
		if use.Source, err = local.Source(profileID, readOnly); err != nil || use.Source == nil {
			t.Fatalf("got %v, %v", use.Source, err)
		}
		h, root := remote.handle(t, use), emptyRoot(t)
		defer h.Release()
		if err := h.Restore(t.Context(), root); err != nil {
			t.Fatal(err)
		}
		if !readOnly {
			if _, err := local.Source(profileID, false); !fault.Is(err, fault.Conflict) {
				t.Errorf("while the data is in use: %v", err)
			}
			if err := h.Save(t.Context(), root); err != nil {
				t.Fatal(err)
			}
		}
		return read(t, root)
	}
	assertTree(t, restored(true), sampleTree(1))
	if len(remote.versions) != 0 {
		t.Errorf("a reader saved %+v", remote.versions)
	}
	assertTree(t, restored(false), sampleTree(1)) // unchanged, but the first version
	if len(remote.versions) != 1 {
		t.Fatalf("got versions %+v", remote.versions)
	}
	assertTree(t, remote.restored(t), sampleTree(1))
	if err := errors.Join(local.MarkStored(profileID), local.MarkStored(profileID), local.MarkStored(uuid.New())); err != nil {
		t.Error(err)
	}
	if again, err := local.Source(profileID, false); again != nil || err != nil {
		t.Errorf("stored data is used again: %v, %v", again, err)
	}
	if other, err := local.Source(uuid.New(), false); other != nil || err != nil {
		t.Errorf("a profile without data: %v, %v", other, err)
	}
	assertTree(t, local.restored(t), sampleTree(1))
}
