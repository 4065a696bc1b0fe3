package launch

import (
	"context"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/browser"
)

// Data keeps the browser data of profiles from launch to launch.
type Data interface {
	// Claim gives a profile's data to one launch. Errors: Conflict while someone
	// else on this machine has it.
	Claim(ctx context.Context, profileID uuid.UUID) (Kept, error)
}

// Kept is a profile's data, which one launch has until it releases it.
type Kept interface {
	browser.Data
	Release()
}
