package rest

import "github.com/browser-svc/svc/gen/cloudapi"

// pending stands for handlers that are being written.
type pending struct{ cloudapi.StrictServerInterface }
