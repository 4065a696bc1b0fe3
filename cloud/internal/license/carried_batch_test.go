package license

import (
	"testing"

	"github.com/google/uuid"
)

func TestFirstOfEachSession(t *testing.T) {
	held, free := uuid.New(), uuid.New()
	ends := []EndReport{{SessionID: free}, {SessionID: held, EndReason: "first"}, {SessionID: held, EndReason: "second"}}
	got := firstOfEachSession(ends, []bool{false, true, true, true}) // followed by an end of another request
	if len(got) != 1 || got[0].SessionID != held || got[0].EndReason != "first" {
		t.Errorf("got %+v, want the first end of %s", got, held)
	}
}
