// Package isolation keeps each launch apart from this machine and from the other
// launches.
package isolation

// Report says how far launches are kept apart, piece by piece.
type Report struct{ Pieces []Piece }

// Piece is one way of keeping launches apart.
type Piece struct {
	Name   string // as the API names it
	On     bool
	Reason string // why it is off
}
